"""How busy a machine is with other work: processor time that nobody here took, over that of the wall clock."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Self

import psutil

_IDLE = frozenset({"idle", "iowait", "guest", "guest_nice"})
"""Guests' time is in that of users already."""


@dataclass(frozen=True)
class ProcessorTime:
    """Seconds so far: of the clock, of all processors at work, and of this process with those it has waited for."""

    clock: float
    busy: float
    mine: float

    @classmethod
    def now(cls) -> Self:
        """Read the counters of the system; in a container those may be of its whole host."""
        times, own = psutil.cpu_times()._asdict(), os.times()
        busy = sum(seconds for name, seconds in times.items() if name not in _IDLE)
        return cls(time.monotonic(), busy, own.user + own.system + own.children_user + own.children_system)


def others_share(before: ProcessorTime, after: ProcessorTime, processors: int) -> float:
    """The share of all processors that other programs had in between, from 0 to 1."""
    others = (after.busy - before.busy) - (after.mine - before.mine)
    whole = (after.clock - before.clock) * processors
    return min(1.0, max(0.0, others / whole)) if whole > 0 else 0.0
