"""Phase 3, annealing: sweeps of exact moves on the copies that training pays for, hot at first, greedy at the end.

While it is hot the edge cut counts beside the copies: where every node has a copy nearly everywhere (dense graphs, many
parts) copies alone are flat, and the cut keeps communities together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from starling.core.keyed import draw_below, stream_key
from starling.kernels.partition.moves import Sweep
from starling.partition.flock.counts import Counts, Sparse, Table
from starling.partition.flock.formation import Formation
from starling.partition.flock.windows import Windows

HEAT = 3.0
"""First temperature, in copies. Hotter gains on graphs with hubs in many parts and loses on the others."""

PULL = 1.0
"""What an edge counts for, in copies, at that temperature; it falls with it."""

COLD_PULL = 1 / 1024
"""And at the end: fewer edges cut where copies are the same. Counts stay below 256, so no copy is ever paid for it."""

MOST_COLD = 8
_RECOUNT = 8
_PAYS = 2e-4
_CHUNK = 8


@dataclass(frozen=True)
class Annealing:
    """How long to anneal: hot `sweeps`, then greedy ones while they pay; `visits` are the looks at each of several windows."""

    sweeps: int
    visits: int
    cap: int
    seed: int
    threads: int | None


def anneal(
    windows: Windows,
    formation: Formation,
    part: NDArray[np.uint16],
    load: NDArray[np.int64],
    slots: int | None,
    plan: Annealing,
) -> int:
    """Change `part` (and `load`) to few copies; returns them. Parts end within the cap wherever whole nodes allow it."""
    counts = Table(part, load) if slots is None else Sparse(part, load, formation.degree, slots)
    each = 1 if windows.count == 1 else -(-plan.sweeps // plan.visits)
    for first in range(0, plan.sweeps, each):
        for window in windows:
            if windows.count > 1 or first % _RECOUNT == 0:
                counts.recount(window, plan.threads)
            for step in range(first, min(first + each, plan.sweeps)):
                warmth = 1 - step / plan.sweeps
                counts.sweep(window, formation.weight, _sweep(plan, step, window.rows, warmth, shed=2 + HEAT * warmth))
            del window
    return _cool(windows, counts, formation.weight, plan)


def _cool(windows: Windows, counts: Counts, weight: NDArray[np.integer], plan: Annealing) -> int:
    """Greedy sweeps until one saves next to nothing; parts above the cap shed nodes at a rising price, at last at any."""
    before = None
    for cold in range(MOST_COLD):
        over = bool((counts.load > plan.cap).any())
        for window in windows:
            counts.recount(window, plan.threads)
            shed = math.inf if cold >= MOST_COLD - 2 else 2.0 * 8.0**cold
            counts.sweep(window, weight, _sweep(plan, plan.sweeps + cold, window.rows, 0.0, shed))
            del window
        copies = counts.copies()
        if not over and before is not None and copies >= before * (1 - _PAYS):
            break
        before = copies
    return copies


def _sweep(plan: Annealing, step: int, rows: int, warmth: float, shed: float) -> Sweep:
    key = stream_key(plan.seed, "partition/anneal", step)
    chunks = max(1, -(-rows // _CHUNK))
    return Sweep(plan.cap, HEAT * warmth, max(PULL * warmth, COLD_PULL), shed, key, _CHUNK, _stride(key, chunks))


def _stride(key: np.uint64, chunks: int) -> int:
    """A drawn step, coprime to the number of chunks, that leads far away: neighbours in turn would move as a crowd."""
    stride = chunks // 4 + draw_below(key, 0, 1, max(1, chunks // 2))
    while math.gcd(stride, chunks) != 1:
        stride += 1
    return stride
