"""Notice within seconds that a worker is stopped, or its machine gone, which no closed connection tells.

Each worker writes a beat to the store where they met, and reads everybody else's. Whoever has been silent for the deadline is given
up: reported, and killed if it is on this host, since a stopped process would stay for ever.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from starling.comm.phase import Phase
from starling.comm.signs_of_life import Beat, Lost, Process, Watched, this_host

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

DEADLINE = 15.0
"""Seconds from the moment a worker dies or stops to the end of the run, unless asked otherwise. A heartbeat's own is less."""

_BEATS = 10
"""Beats in a deadline."""


def end_process(lost: Lost) -> None:
    """Say what was lost and end this process at once: its threads may hang in calls that nothing else interrupts."""
    logging.getLogger(__name__).critical("%s", lost)
    logging.shutdown()
    lost.kill()
    os._exit(1)


class Heartbeat:
    """Beats and listens in a thread of its own, from `start` to `stop`.

    `on_lost` is called in that thread, once for each worker that is lost, and once if the store is. It comes before the lost worker
    is killed, so that nobody takes that for the cause; if it does not return, it must call `Lost.kill`. The store is talked to over
    a connection of its own, so that a call that waits on the given one holds up no beat. With `store_may_vanish` one that does not
    answer for the deadline is lost: torch would wait without end for one whose machine is gone.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        phase: Phase,
        *,
        deadline: float,
        on_lost: Callable[[Lost], None] = end_process,
        store_may_vanish: bool = False,
    ) -> None:
        self._store = store.clone() if hasattr(store, "clone") else store  # torch has it since 2.8
        self._store.set_timeout(timedelta(seconds=deadline))
        self._rank, self._phase, self._deadline, self._on_lost = rank, phase, deadline, on_lost
        now, me = time.monotonic(), Process.look()
        self._watched = {peer: Watched(peer, now) for peer in range(size) if peer != rank}
        self._heard: list[int] = []
        self._host, self._born, self._count = this_host(), me.born if me else 0, 0
        self._over, self._ended, self._hearing = threading.Event(), threading.Event(), threading.Lock()
        self._turns = 0
        self._thread = threading.Thread(target=self._live, name="heartbeat", daemon=True)
        self._guard = threading.Thread(target=self._watch_store, name="store", daemon=True) if store_may_vanish else None

    def start(self) -> Self:
        """Begin to beat. The first beat is written when this returns: whatever happens then, the others know this process."""
        self._beat(done=False)
        self._thread.start()
        if self._guard is not None:
            self._guard.start()
        return self

    def stop(self) -> None:
        """Part from the others: from here on, this worker's silence is no cause for alarm."""
        self._over.set()
        self._thread.join()
        self._ended.set()

    def gone(self, *, ask: bool = True) -> list[Lost]:
        """Peers of this host whose processes have ended, though they were not done; any thread may call it.

        Without `ask` it goes by what was last heard: so there is no waiting for a store that may have gone as well.
        """
        return self._lost(math.inf, ask=ask)

    def phase_of(self, peer: int) -> str:
        """What a worker was doing when it was last heard."""
        return self._watched[peer].beat.phase

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _live(self) -> None:
        interval = self._deadline / _BEATS
        last = time.monotonic()
        try:
            while True:
                self._turn()
                if self._over.wait(interval):
                    break
                now = time.monotonic()
                for watched in self._watched.values():
                    watched.forgive(max(now - last - 2 * interval, 0.0))  # this process was stopped, or starved
                last = now
            self._beat(done=True)
        except RuntimeError as error:  # all that torch raises when a store does not answer
            if not self._over.is_set():
                self._on_lost(Lost(None, str(self._phase), 0.0, f"does not answer any more ({_first_line(error)})"))

    def _turn(self) -> None:
        """Beat, and listen. A store that answers too late was stopped with its process, say by Ctrl-Z, and goes on."""
        from torch.distributed import DistStoreError

        with suppress(DistStoreError):
            self._beat(done=False)
            self._listen()
            self._turns += 1

    def _watch_store(self) -> None:
        """Count how often the heartbeat was found within one turn: time in which this process itself is stopped does not count."""
        turn, found = -1, 0
        while not self._ended.wait(self._deadline / _BEATS):
            turn, found = self._turns, found + 1 if self._turns == turn else 0
            if found == _BEATS:
                self._on_lost(Lost(None, str(self._phase), self._deadline, f"has not answered for {self._deadline:g} s"))
                return

    def _beat(self, *, done: bool) -> None:
        self._count += 1
        beat = Beat(self._count, os.getpid(), self._born, self._host, str(self._phase), done)
        self._store.set(_key(self._rank), beat.pack())

    def _listen(self) -> None:
        for lost in self._lost(self._deadline):
            self._on_lost(lost)
            lost.kill()
            assert lost.rank is not None
            del self._watched[lost.rank]

    def _lost(self, deadline: float, *, ask: bool = True) -> list[Lost]:
        # Looking at processes comes first: one that has ended since then had written its last beat before it is read here.
        processes = {
            peer: Process.look(watched.beat.process)
            for peer, watched in list(self._watched.items())
            if watched.beat.host == self._host
        }
        if ask:
            self._hear()
        now = time.monotonic()
        judged = [
            watched.judge(processes.get(peer), peer in processes, now, deadline)
            for peer, watched in list(self._watched.items())
        ]
        return [lost for lost in judged if lost is not None]

    def _hear(self) -> None:
        with self._hearing:
            self._heard = [peer for peer in list(self._watched) if peer in self._heard or self._store.check([_key(peer)])]
            texts = self._store.multi_get([_key(peer) for peer in self._heard]) if self._heard else []
            now = time.monotonic()
            for peer, text in zip(self._heard, texts, strict=True):
                self._watched[peer].hear(Beat.unpack(text), now)


def _key(rank: int) -> str:
    return f"starling/beat/{rank}"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
