"""Messages over torch.distributed's point-to-point calls by Gloo: sockets, between hosts as a rule.

Gloo carries tags, moves bytes in a thread of its own, and begins a transfer when both sides have asked for it. So a parcel must
live until it was received; Gloo says so only to a thread that waits, hence one such thread for each peer. And so it pays to ask for
messages before sending and before computing: rows that nobody has asked for yet do not travel, and a question that is put after
rows were sent the other way arrives behind them.

There are two process groups, with sockets of their own: one for training, and one for the batches that are made beside it, whose
rows would else stand in the way of training's.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from starling.comm.failures import PeerLost, WaitedInVain
from starling.comm.ledger import Ledger
from starling.comm.mailbox import Mailbox
from starling.comm.tags import BACKGROUND, channel_of

_FOREVER = timedelta(days=365)
_FAREWELL = 5.0
"""Seconds that `close` gives peers to take what was sent to them."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Two process groups of all workers, whose ranks are their numbers."""

    training: dist.ProcessGroup
    background: dist.ProcessGroup

    def of(self, tag: int) -> dist.ProcessGroup:
        """The group that a message travels in."""
        return self.background if channel_of(tag) in BACKGROUND else self.training


class GlooMailbox(Mailbox):
    """A worker's end of its links."""

    def __init__(self, rank: int, size: int, groups: Groups, ledger: Ledger, *, wait_limit: float = 600.0) -> None:
        self.rank, self.size, self.ledger = rank, size, ledger
        self._groups, self._wait_limit = groups, wait_limit
        self._outboxes: dict[tuple[int, dist.ProcessGroup], _Outbox] = {}
        self._lock = threading.Lock()

    def parcel(self, peer: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Ordinary memory."""
        return torch.empty(tuple(shape), dtype=dtype)

    def send(self, peer: int, tag: int, parcel: Tensor) -> None:
        """Begin to send; nothing travels if there are no numbers, since the receiver knows the shape."""
        if parcel.numel() == 0:
            return
        group = self._groups.of(tag)
        try:
            work = dist.isend(parcel, peer, group=group, tag=tag)
        except RuntimeError as error:
            raise PeerLost(peer, tag) from error
        assert work is not None
        with self._lock:
            if (peer, group) not in self._outboxes:
                self._outboxes[peer, group] = _Outbox(peer)
            self._outboxes[peer, group].keep(work, parcel)

    def receive(self, peer: int, tag: int, shape: Sequence[int], dtype: torch.dtype) -> _Coming:
        """Begin to receive into memory of its own."""
        rows = torch.empty(tuple(shape), dtype=dtype)
        return _Coming(peer, tag, rows, self._groups.of(tag), self.ledger, self._wait_limit)

    def send_list(self, peer: int, tag: int, values: NDArray[np.int64]) -> None:
        """Send the count, then the numbers."""
        self.send(peer, tag, torch.tensor([len(values)]))
        self.send_copy(peer, tag, torch.from_numpy(values))

    def receive_list(self, peer: int, tag: int) -> NDArray[np.int64]:
        """Receive the count, then the numbers."""
        return self.ask_for_lists([peer], tag)()[peer]

    def ask_for_lists(self, peers: Sequence[int], tag: int) -> Callable[[], dict[int, NDArray[np.int64]]]:
        """Ask for counts now, and for each one's numbers when its count has come: they travel side by side."""
        counts = self.receive_each(tag, dict.fromkeys(peers, (1,)), torch.int64)

        def wait() -> dict[int, NDArray[np.int64]]:
            coming = {peer: self.receive(peer, tag, (int(count.item()),), torch.int64) for peer, count in counts}
            return {peer: numbers.wait().numpy() for peer, numbers in coming.items()}

        return wait

    def close(self) -> None:
        """Let peers take what was sent, for a few seconds; the process groups stay their maker's."""
        end = time.monotonic() + _FAREWELL
        with self._lock:  # a thread that makes batches may still be sending
            outboxes, self._outboxes = list(self._outboxes.values()), {}
        for outbox in outboxes:
            outbox.close()
        for outbox in outboxes:
            outbox.join(end - time.monotonic())


class _Coming(AbstractContextManager[Tensor]):
    """A message that is asked for; nothing comes if there are no numbers."""

    def __init__(self, peer: int, tag: int, rows: Tensor, group: dist.ProcessGroup, ledger: Ledger, wait_limit: float) -> None:
        self._peer, self._tag, self._rows, self._ledger, self._wait_limit = peer, tag, rows, ledger, wait_limit
        self._work: dist.Work | None = None
        if rows.numel():
            try:
                self._work = dist.irecv(rows, peer, group=group, tag=tag)
            except RuntimeError as error:
                raise PeerLost(peer, tag) from error

    def wait(self) -> Tensor:
        """The rows, once they are here."""
        if self._work is not None:
            began = time.monotonic()
            with self._ledger.time("waiting"):
                try:
                    self._work.wait(timedelta(seconds=self._wait_limit))
                except RuntimeError as error:
                    # Gloo has one kind of error; a wait that came to its end closes the link, so time tells the two apart.
                    if time.monotonic() - began >= self._wait_limit:
                        raise WaitedInVain(self._peer, self._tag, self._wait_limit) from error
                    raise PeerLost(self._peer, self._tag) from error
        return self._rows

    __enter__ = wait

    def __exit__(self, *failure: object) -> None:
        """The rows go when nobody holds them."""


class _Outbox:
    """Parcels on their way to one peer, kept until they have left."""

    def __init__(self, peer: int) -> None:
        self._under_way: queue.SimpleQueue[tuple[dist.Work, Tensor] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._see_off, name=f"outbox-{peer}", daemon=True)
        self._thread.start()

    def keep(self, work: dist.Work, parcel: Tensor) -> None:
        self._under_way.put((work, parcel))

    def close(self) -> None:
        self._under_way.put(None)

    def join(self, seconds: float) -> None:
        self._thread.join(max(seconds, 0.0))

    def _see_off(self) -> None:
        while (sent := self._under_way.get()) is not None:
            with suppress(RuntimeError):  # the peer is gone: whoever waits for it, or sends to it again, will be told
                sent[0].wait(_FOREVER)
            del sent  # not to be kept until the next one is sent
