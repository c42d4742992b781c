"""Which of all the things that went wrong came first, and how to say it in one sentence.

When a worker dies, its peers fail too, because they lost it; the agent then ends the rest. Only the first cause is worth telling.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from starling.core.errors import StarlingError
from starling.launch.desk import DONE, Status
from starling.launch.reports import Report, WorkerError
from starling.launch.watch import STEP

_FIRST_HAND, _LOST, _TERMINATED, _ENDED_BY_US = range(4)


class WorkerTrace(Exception):
    """The traceback a worker left, as the cause of the error that is raised here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class Evidence:
    """All that is known after a run has ended."""

    size: int
    reports: Sequence[Report]
    exits: Mapping[int, int]
    """Exit statuses other than 0, a signal as its negative, the first to fail first."""
    deaths: Mapping[int, float]
    """When each worker was seen to have ended."""
    killed: AbstractSet[int]
    """Whom the launcher killed, because they did not end otherwise."""
    statuses: Mapping[int, Status]


@dataclass(frozen=True)
class _Suspect:
    level: int
    moment: float
    error: StarlingError
    trace: str = ""


def first_cause(evidence: Evidence) -> StarlingError | None:
    """The error that ended a run; None if every worker finished."""
    suspects = [*_reported(evidence), *_unreported(evidence)]
    if not suspects:
        return None
    first = min(suspects, key=lambda suspect: (suspect.level, suspect.moment))
    if first.trace:
        first.error.__cause__ = WorkerTrace(first.trace)
    return first.error


def _reported(evidence: Evidence) -> list[_Suspect]:
    return [
        _Suspect(
            _LOST if report.kind == "lost" else _FIRST_HAND,
            report.moment,
            report.error(evidence.size),
            report.trace,
        )
        for report in evidence.reports
    ]


def _unreported(evidence: Evidence) -> list[_Suspect]:
    """Workers that are gone without a word."""
    explained = {report.rank for report in evidence.reports}
    missed = {report.peer for report in evidence.reports}
    finished = {rank for rank, status in evidence.statuses.items() if status.phase == DONE}
    seen = evidence.statuses.keys() | evidence.deaths.keys()
    left_early = sorted(seen - finished - evidence.exits.keys())
    suspects = []
    for order, rank in enumerate([*evidence.exits, *left_early]):
        if rank in explained:
            continue
        exit_status = evidence.exits.get(rank, 0)
        level, moment = _FIRST_HAND, _moment_of_death(evidence, rank)
        if rank in evidence.killed:
            level = _ENDED_BY_US
        elif exit_status == -signal.SIGTERM and rank not in missed:  # what the agent sends to all others
            level, moment = _TERMINATED, order
        phase = evidence.statuses[rank].phase if rank in evidence.statuses else "starting"
        suspects.append(_Suspect(level, moment, WorkerError(rank, evidence.size, phase, _ending(exit_status))))
    return suspects


def _moment_of_death(evidence: Evidence, rank: int) -> float:
    """The earliest time it can have been; one that was never seen died before it said a word, or just as the run ended."""
    if rank in evidence.deaths:
        return evidence.deaths[rank] - STEP
    return math.inf if rank in evidence.statuses else -math.inf


def _ending(status: int) -> str:
    """How a process ended that said nothing."""
    if status >= 0:
        return f"left before the end of the run, with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "unknown"
    hint = ". If nobody sent it, the machine was out of memory: use more parts or machines" if status == -signal.SIGKILL else ""
    return f"was killed by signal {-status} ({name}){hint}"
