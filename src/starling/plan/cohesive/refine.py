"""Cohesive batches for real graphs: from any start, move targets and small clusters of them wherever that lowers J(P).

J is the true K-hop cost and every gain is exact (kernels/cohesive_moves.py). Clusters move first, since a group that is at home in
another batch cannot get there one target at a time; then single targets, at first with a little heat, so that a move may go uphill,
then downhill until nothing moves. Sizes stay within limits throughout. The result is never worse than the start, and is a pure
function of the start and the seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.keyed import permutation, stream_key
from starling.core.memory import format_bytes
from starling.kernels.cohesive import by_batch
from starling.kernels.cohesive_moves import Lists, State, Units, make_state, move_units, state_bytes
from starling.kernels.csr import transpose
from starling.plan.cost import BatchCosts

_FEW = 0.0005
"""Downhill passes end when one lowers J by less than this share."""


@dataclass(frozen=True)
class Effort:
    """How long to search: passes over clusters, warm passes and downhill passes over single targets."""

    cluster_passes: int = 4
    warm_passes: int = 30
    cool_passes: int = 8
    warmth: float = 1.0
    """The first warm pass may raise J by about this share of an average target's cost in one move."""


@dataclass(frozen=True)
class Limits:
    """Fewest and most targets of a batch."""

    low: int
    high: int


def limits(targets: int, batches: int, tolerance: float) -> Limits:
    """Within `tolerance` of the mean, and never less than what lets every target have a place."""
    mean = targets / batches
    return Limits(max(1, math.floor(mean * (1 - tolerance))), math.ceil(mean * (1 + tolerance)))


def refine(
    costs: BatchCosts,
    batch: NDArray[np.int32],
    batches: int,
    *,
    tolerance: float = 0.1,
    clusters: NDArray[Any] | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    memory: int = 1 << 30,
) -> NDArray[np.int32]:
    """Better batches [V] than `batch` (−1: no target), of equal size within `tolerance`; `clusters` [V] may move whole at first."""
    effort = effort or Effort()
    hops, nodes = costs.by_distance.shape
    needed = state_bytes(batches, hops, nodes)
    if needed > memory:
        raise InputError(
            f"Refining {batches:,} batches of {nodes:,} nodes over {hops} layers needs {format_bytes(needed)}, more than "
            f"{format_bytes(memory)}. Pass fewer --batches, more --memory, or --set strategy.passes=0."
        )
    lists = _lists(costs)
    bounds = limits(int((batch >= 0).sum()), batches, tolerance)
    start = balanced(batch, batches, bounds, seed)
    if hops == 1 or batches == 1:
        return start  # a target needs nobody else's rows, or everybody's
    before = costs.of_epoch(start)
    search = _Search(lists, make_state(lists, start, batches), bounds, seed, before)
    if clusters is not None:
        search.cool(_units(start, clusters), effort.cluster_passes)
    singles = _units(start, np.arange(nodes))
    heat = effort.warmth * before / max(len(singles), 1)
    search.warm(singles, effort.warm_passes, heat)
    search.cool(singles, effort.cool_passes)
    return search.state.batch if costs.of_epoch(search.state.batch) <= before else start


@dataclass
class _Search:
    lists: Lists
    state: State
    bounds: Limits
    seed: int
    total: float
    """J."""
    passes: int = 0

    def warm(self, units: Units, passes: int, heat: float) -> None:
        for number in range(passes):
            self._pass(units, heat * (1 - number / passes) ** 2)

    def cool(self, units: Units, passes: int) -> None:
        for _ in range(passes):
            change, moved = self._pass(units, 0.0)
            if moved == 0 or -change < _FEW * self.total:
                return

    def _pass(self, units: Units, heat: float) -> tuple[float, int]:
        self.passes += 1
        key = stream_key(self.seed, "cohesive", self.passes)
        order = permutation(key, len(units))
        change, moved = move_units(self.lists, units, self.state, order, self.bounds.low, self.bounds.high, key, heat)
        self.total += change
        return change, moved


def balanced(batch: NDArray[np.int32], batches: int, bounds: Limits, seed: int) -> NDArray[np.int32]:
    """The same batches with sizes within bounds: targets of batches that are too large go where there is room."""
    batch = batch.astype(np.int32).copy()
    sizes = np.bincount(batch[batch >= 0], minlength=batches)
    over = np.maximum(sizes - bounds.high, 0)
    under = np.maximum(bounds.low - sizes, 0)
    if not over.any() and not under.any():
        return batch
    order = permutation(stream_key(seed, "cohesive/balance"), len(batch))
    order = order[batch[order] >= 0]
    while True:
        short = np.flatnonzero(sizes < bounds.low)
        full = np.flatnonzero(sizes > bounds.high)
        if not len(short) and not len(full):
            return batch
        giver = int(np.argmax(sizes))
        taker = int(short[0]) if len(short) else int(np.argmin(sizes))
        count = min(
            sizes[giver] - bounds.low, bounds.high - sizes[taker], max(sizes[giver] - bounds.high, bounds.low - sizes[taker])
        )
        given = order[batch[order] == giver][: max(int(count), 1)]
        batch[given] = taker
        sizes[giver] -= len(given)
        sizes[taker] += len(given)


def _lists(costs: BatchCosts) -> Lists:
    lists = costs.lists
    turned = transpose(lists, lists.rows)
    by_hop = costs.cost.by_hop(np.diff(lists.offsets))
    return Lists(lists.offsets, lists.neighbours, turned.offsets, turned.neighbours, by_hop)


def _units(batch: NDArray[np.int32], groups: NDArray[Any]) -> Units:
    """Targets of one batch and one group as a unit."""
    targets = np.flatnonzero(batch >= 0)
    _, label = np.unique(np.stack([batch[targets], groups[targets]]), axis=1, return_inverse=True)
    members, bounds = by_batch(label.astype(np.int32).ravel())
    return Units(bounds, targets[members])
