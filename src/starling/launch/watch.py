"""Watch over the processes of a run: when did each end, is one stopped, and does everything end soon once one has failed?

torch's agent starts workers, notices one that has failed, and asks the others to end; but it never looks at one that is stopped,
and gives a process 30 seconds after SIGTERM, which a stopped one does not hear.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

import psutil

from starling.launch.desk import DONE, Desk
from starling.launch.reports import Report

STEP = 0.05
"""Seconds from one look to the next, and so how late a death may be noticed."""

_LONGEST_STEP = 0.5
_SEARCH_EVERY = 0.5
"""Seconds from one search for workers that have not said a word to the next; it reads the table of all processes."""
_ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_FAREWELL = 5.0


class Watch:
    """Looks at a run's workers in a thread until the block is left; then none of their processes is left either.

    `patience` is how long a worker may be stopped, `grace` how long the others may live after one has failed or this process was
    told to end.
    """

    def __init__(self, desk: Desk, workers: int, *, patience: float, grace: float) -> None:
        self._desk, self._workers, self._patience, self._grace = desk, workers, patience, grace
        self.deaths: dict[int, float] = {}
        """When each worker was seen to have ended (monotonic clock)."""
        self.killed: set[int] = set()
        """Whom the watch ended itself."""
        self._processes: dict[int, psutil.Process] = {}
        self._searched = time.monotonic()
        self._stopped = [0.0] * workers
        self._trouble: float | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
        self._signals: _Signals | None = None

    def __enter__(self) -> Self:
        self._signals = _Signals()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        try:
            self._thread.join()
            assert self._signals is not None
            self._signals.close()
        finally:
            self._end_all()

    def _look(self) -> None:
        last = time.monotonic()
        while not self._over.wait(STEP):
            now = time.monotonic()
            # If this process was stopped together with its workers, that long step does not count as theirs.
            step, last = min(now - last, _LONGEST_STEP), now
            self._search(now)
            for rank in range(self._workers):
                if rank not in self.deaths:
                    self._look_at(rank, step)
            if self._trouble is None and self._in_trouble():
                self._trouble = time.monotonic()
            if self._trouble is not None and time.monotonic() - self._trouble > self._grace:
                for rank in self._processes.keys() - self.deaths.keys():
                    self._kill(rank)

    def _look_at(self, rank: int, step: float) -> None:
        process = self._processes.get(rank) or self._meet(rank)
        if process is None:
            return
        try:
            state = process.status()
        except psutil.NoSuchProcess:
            state = psutil.STATUS_DEAD
        if state in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            self.deaths[rank] = time.monotonic()
        elif state != psutil.STATUS_STOPPED:
            self._stopped[rank] = 0.0
        else:
            self._stopped[rank] += step
            if self._stopped[rank] > self._patience and rank not in self.killed:
                self._desk.file_report(self._stopped_report(rank), by="launcher")
                self._kill(rank)

    def _meet(self, rank: int) -> psutil.Process | None:
        status = self._desk.status(rank)
        if status is None:
            return None
        try:
            self._processes[rank] = psutil.Process(status.process)
        except psutil.NoSuchProcess:
            self.deaths[rank] = time.monotonic()
            return None
        return self._processes[rank]

    def _search(self, now: float) -> None:
        """Meet workers that have no status yet: one that is stopped while Python starts would never write it."""
        known = self._processes.keys() | self.deaths.keys()
        if len(known) == self._workers or now - self._searched < _SEARCH_EVERY:
            return
        self._searched = now
        for child in self._children():
            with suppress(psutil.Error, ValueError):
                rank = int(child.environ().get("RANK", ""))
                if rank not in known:
                    self._processes[rank] = child

    def _in_trouble(self) -> bool:
        assert self._signals is not None
        if self._signals.told_to_end() or self._desk.has_reports():
            return True
        statuses = [self._desk.status(rank) for rank in self.deaths]
        return any(status is None or status.phase != DONE for status in statuses)

    def _stopped_report(self, rank: int) -> Report:
        status = self._desk.status(rank)
        cause = f"was stopped by a signal (SIGSTOP or the like) for more than {self._patience:g} s"
        return Report(rank, "stopped", status.phase if status else "starting", cause, time.monotonic())

    def _kill(self, rank: int) -> None:
        self.killed.add(rank)
        _kill_with_children(self._processes[rank].pid)

    def _end_all(self) -> None:
        """Kill what is left of the run: a signal at a bad moment makes the agent lose sight of processes it has just started."""
        left = self._children()
        for child in left:
            _kill_with_children(child.pid)
        psutil.wait_procs(left, _FAREWELL)

    def _children(self) -> list[psutil.Process]:
        return [child for child in psutil.Process().children() if self._belongs(child)]

    def _belongs(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            return str(self._desk.folder) in process.cmdline()
        return False


def _kill_with_children(process: int) -> None:
    """Kill a worker, and with it all processes of its group, which it leads."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


class _Signals:
    """Notices that this process was told to end, while the agent handles the signal and waits for workers."""

    def __init__(self) -> None:
        self._active = threading.current_thread() is threading.main_thread()  # only it may set the file that signals go to
        if self._active:
            self._ear, self._mouth = socket.socketpair()
            self._ear.setblocking(False)
            self._mouth.setblocking(False)
            self._before = signal.set_wakeup_fd(self._mouth.fileno(), warn_on_full_buffer=False)

    def told_to_end(self) -> bool:
        """Whether a signal came since the last call that ends a command."""
        if not self._active:
            return False
        try:
            return not _ENDING.isdisjoint(self._ear.recv(1024))
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Give the file of signals back."""
        if self._active:
            signal.set_wakeup_fd(self._before)
            self._ear.close()
            self._mouth.close()
