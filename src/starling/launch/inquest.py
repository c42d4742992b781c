"""Who ended the run, found out by the workers themselves where no launcher looks at their processes.

A worker that ends before its work is done first claims, in the store where all have met, to be the one that tells why; only the
first says anything. So while nobody has claimed that, a worker whose process is gone did not end for another's sake: it is the
cause, and has told nobody. That holds on its own host, where processes can be seen; from other hosts there is only its connection,
which has closed, so they give its neighbours a moment to speak first.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from starling.comm.heartbeat import Heartbeat
from starling.comm.signs_of_life import Lost
from starling.launch.reports import Report

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

_CLAIM = "starling/first-cause"
_LOOK_EVERY = 0.02
_EXPLAINED = "lost", "terminated"
"""Kinds of failure that another's end explains."""


class Inquest:
    """One worker's part in finding the first cause: it asks for so many seconds, and looks for half as many at processes."""

    def __init__(self, store: Store, rank: int, heartbeat: Heartbeat | None, seconds: float) -> None:
        self._store, self._rank, self._heartbeat, self._seconds = store, rank, heartbeat, seconds

    def is_over(self) -> bool:
        """Whether somebody has told, or is about to tell, why the run ends."""
        return self._store.check([_CLAIM])

    def to_tell(self, report: Report) -> Report | None:
        """What this worker, which ends for the reason reported, has to say: the first cause, or nothing if somebody else tells it.

        The store is asked in another thread, since one whose machine is gone never answers, and torch would wait for ever.
        """
        answers: list[Report | None] = []

        def ask() -> None:
            with suppress(Exception):  # the store has gone, and torch raises whatever that leads to
                answers.append(self._ask(report))

        thread = threading.Thread(target=ask, name="inquest", daemon=True)
        thread.start()
        thread.join(self._seconds)
        return answers[0] if answers else self._without_store(report)

    def _ask(self, report: Report) -> Report | None:
        if report.kind in _EXPLAINED and self._heartbeat is not None:
            report = self._explain(report, self._heartbeat)
        mine = f"{self._rank}: {report.cause}"
        first: bytes = self._store.compare_set(_CLAIM, "", mine)
        return report if first.decode() == mine else None

    def _explain(self, report: Report, heartbeat: Heartbeat) -> Report:
        """The report on whoever is the reason for this one, if it can be found."""
        gone = self._await_gone(heartbeat, ask=True)
        if gone:
            return Report.on_gone(next((lost for lost in gone if lost.rank == report.peer), gone[0]))
        return report if report.peer is None else Report.on_silenced(report, heartbeat.phase_of(report.peer))

    def _await_gone(self, heartbeat: Heartbeat, *, ask: bool) -> list[Lost]:
        """Whose processes have ended on this host; that may be seen a moment late, for their connections close first."""
        end = time.monotonic() + self._seconds / 2
        while not (gone := heartbeat.gone(ask=ask)) and time.monotonic() < end and not (ask and self.is_over()):
            time.sleep(_LOOK_EVERY)
        return gone

    def _without_store(self, report: Report) -> Report:
        """What can be said alone: who is gone or lost, and what it was doing, but not who was the first."""
        if report.kind not in _EXPLAINED or self._heartbeat is None:
            return report
        gone = {lost.rank: lost.phase for lost in self._await_gone(self._heartbeat, ask=False)}
        known = [f"Worker {rank} has ended on this machine, last heard in the phase '{phase}'." for rank, phase in gone.items()]
        if report.peer is not None and report.peer not in gone:
            known.append(f"Worker {report.peer} was last heard in the phase '{self._heartbeat.phase_of(report.peer)}'.")
        unknown = "Which worker was the first cannot be found out, since the store where all met does not answer"
        return replace(report, cause=" ".join([f"{report.cause.rstrip('.')}.", *known, unknown]))
