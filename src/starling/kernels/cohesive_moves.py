"""Move targets between batches where that lowers J(P) = Σ C(B), with the exact gain of every move.

Every batch counts, for each hop h ≥ 1 and node u, how many of its rows at hop h − 1 need u: the rows that list u as a neighbour,
and u itself. A node is needed at hop h while its count is above zero. A target that joins or leaves a batch changes the counts of
its own neighbours, and only nodes whose count leaves or reaches zero pass the change on: a move costs what it changes, not what
the batch is.

Targets move in units: one target, or a small cluster at a time. `state` arrays are changed in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw, draw_unit

_LOOKED_AT = 256
"""Neighbours of neighbours of a unit that are asked for their batch."""
_TRIED = 6
"""Batches a unit is tried in."""


@dataclass(frozen=True, eq=False)
class Lists:
    """Who needs whom: in-neighbour lists, the same turned round, and each node's cost at each hop [K, V]."""

    offsets: NDArray[np.int64]
    neighbours: NDArray[Any]
    out_offsets: NDArray[np.int64]
    out_neighbours: NDArray[Any]
    by_hop: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Units:
    """Targets that move together: those of unit i are members[bounds[i]:bounds[i + 1]]."""

    bounds: NDArray[np.int64]
    members: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.bounds) - 1


@dataclass(frozen=True, eq=False)
class State:
    """Batches under way: the batch [V] of each target (−1: no target), targets in each batch, and the counts [M, K − 1, V]."""

    batch: NDArray[np.int32]
    sizes: NDArray[np.int64]
    counts: NDArray[np.int32]


def state_bytes(batches: int, hops: int, nodes: int) -> int:
    """Memory of the counts."""
    return 4 * batches * max(hops - 1, 1) * nodes


def make_state(lists: Lists, batch: NDArray[np.int32], batches: int) -> State:
    """The counts of given batches."""
    hops, nodes = lists.by_hop.shape
    state = State(
        batch.astype(np.int32),
        np.bincount(batch[batch >= 0], minlength=batches).astype(np.int64),
        np.zeros((batches, max(hops - 1, 1), nodes), np.int32),
    )
    _count_all(lists.offsets, lists.neighbours, lists.by_hop, state.batch, state.counts, _queues(nodes))
    return state


def move_units(
    lists: Lists, units: Units, state: State, order: NDArray[np.int64], low: int, high: int, key: np.uint64, heat: float
) -> tuple[float, int]:
    """Offer every unit, in this order, a move to the best batch around it; returns how much J changed and how many moved.

    A batch keeps between `low` and `high` targets; two units that each want to go where the other is may change places. With
    `heat` > 0 a move that raises J by d is made with probability exp(−d / heat).
    """
    nodes, batches = lists.by_hop.shape[1], len(state.sizes)
    wishes = np.full((batches, batches), -1, np.int32)
    change, moved = _move_units(
        lists.offsets,
        lists.neighbours,
        lists.out_offsets,
        lists.out_neighbours,
        lists.by_hop,
        units.bounds,
        units.members,
        order,
        state.batch,
        state.sizes,
        state.counts,
        wishes,
        np.zeros(lists.by_hop.shape, np.int64),
        _queues(nodes),
        low,
        high,
        key,
        heat,
    )
    return float(change), int(moved)


def _queues(nodes: int) -> NDArray[np.int64]:
    return np.empty((2, nodes), np.int64)


@compiled
def _join(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    by_hop: NDArray[np.float64],
    counts: NDArray[np.int32],
    queues: NDArray[np.int64],
    target: int,
    step: int,
) -> float:
    """Let a target join (step 1) or leave (step −1) the batch with these counts [K − 1, V]; how much C changes, unsigned."""
    hops = len(by_hop)
    edge = 1 if step > 0 else 0  # a count that becomes 1 is a node newly needed; one that becomes 0 is needed no longer
    total = float(by_hop[0, target])
    queues[0, 0] = target
    waiting = 1
    for hop in range(1, hops):
        here, there, found = (hop - 1) & 1, hop & 1, 0
        for i in range(waiting):
            node = queues[here, i]
            counts[hop - 1, node] += step
            if counts[hop - 1, node] == edge:
                total += by_hop[hop, node]
                queues[there, found] = node
                found += 1
            for k in range(offsets[node], offsets[node + 1]):
                other = neighbours[k]
                counts[hop - 1, other] += step
                if counts[hop - 1, other] == edge:
                    total += by_hop[hop, other]
                    queues[there, found] = other
                    found += 1
        waiting = found
        if waiting == 0:
            break
    return total


@compiled
def _count_all(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    by_hop: NDArray[np.float64],
    batch: NDArray[np.int32],
    counts: NDArray[np.int32],
    queues: NDArray[np.int64],
) -> None:
    for node in range(len(batch)):
        if batch[node] >= 0:
            _join(offsets, neighbours, by_hop, counts[batch[node]], queues, node, 1)


@compiled
def _price_of_joining(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    by_hop: NDArray[np.float64],
    counts: NDArray[np.int32],
    marks: NDArray[np.int64],
    stamp: int,
    queues: NDArray[np.int64],
    members: NDArray[np.int64],
    most: float,
) -> float:
    """How much C of a batch grows if these targets join it, nothing changed; stops counting above `most`."""
    hops, waiting, total = len(by_hop), 0, 0.0
    for target in members:
        total += by_hop[0, target]
        queues[0, waiting] = target
        waiting += 1
    for hop in range(1, hops):
        here, there, found = (hop - 1) & 1, hop & 1, 0
        for i in range(waiting):
            node = queues[here, i]
            if counts[hop - 1, node] == 0 and marks[hop, node] != stamp:
                marks[hop, node] = stamp
                total += by_hop[hop, node]
                queues[there, found] = node
                found += 1
            for k in range(offsets[node], offsets[node + 1]):
                other = neighbours[k]
                if counts[hop - 1, other] == 0 and marks[hop, other] != stamp:
                    marks[hop, other] = stamp
                    total += by_hop[hop, other]
                    queues[there, found] = other
                    found += 1
            if total > most:
                return total
        waiting = found
        if waiting == 0:
            break
    return total


@compiled
def _candidates(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    out_offsets: NDArray[np.int64],
    out_neighbours: NDArray[Any],
    members: NDArray[np.int64],
    batch: NDArray[np.int32],
    own: int,
    key: np.uint64,
    votes: NDArray[np.int32],
    found: NDArray[np.int32],
) -> int:
    """Fill `found` with the batches that most often need what these targets need; how many. `votes` is zero before and after."""
    seen, looked = 0, 0
    touched = np.empty(_LOOKED_AT + 2, np.int32)
    start = np.int64(draw(key, members[0], 1) >> np.uint64(33))
    for m in range(len(members)):
        node = members[(start + m) % len(members)]
        first, degree = offsets[node], offsets[node + 1] - offsets[node]
        for j in range(degree + 1):
            via = node if j == degree else neighbours[first + (start + j) % degree]
            if batch[via] >= 0 and batch[via] != own:
                if votes[batch[via]] == 0:
                    touched[seen] = batch[via]
                    seen += 1
                votes[batch[via]] += 2
                looked += 1
            others, count = out_offsets[via], out_offsets[via + 1] - out_offsets[via]
            for k in range(min(count, 8)):
                label = batch[out_neighbours[others + (start + k) % count]]
                looked += 1
                if label >= 0 and label != own and seen <= _LOOKED_AT:
                    if votes[label] == 0:
                        touched[seen] = label
                        seen += 1
                    votes[label] += 1
            if looked >= _LOOKED_AT or seen >= _LOOKED_AT:
                break
        if looked >= _LOOKED_AT or seen >= _LOOKED_AT:
            break
    kept = 0
    while kept < min(len(found), seen):
        best, at = -1, -1
        for i in range(seen):
            label = touched[i]
            if votes[label] > best or (votes[label] == best and label < touched[at]):
                best, at = votes[label], i
        if best <= 0:
            break
        found[kept] = touched[at]
        kept += 1
        votes[touched[at]] = 0
    for i in range(seen):
        votes[touched[i]] = 0
    return kept


@compiled
def _transfer(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    by_hop: NDArray[np.float64],
    counts: NDArray[np.int32],
    queues: NDArray[np.int64],
    members: NDArray[np.int64],
    batch: NDArray[np.int32],
    sizes: NDArray[np.int64],
    label: Any,
) -> float:
    """Take targets out of their batch and, with a label ≥ 0, put them into another; how much J changes."""
    change = 0.0
    for target in members:
        if batch[target] >= 0:
            change -= _join(offsets, neighbours, by_hop, counts[batch[target]], queues, target, -1)
            sizes[batch[target]] -= 1
        batch[target] = label
        if label >= 0:
            change += _join(offsets, neighbours, by_hop, counts[label], queues, target, 1)
            sizes[label] += 1
    return change


@compiled
def _move_units(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    out_offsets: NDArray[np.int64],
    out_neighbours: NDArray[Any],
    by_hop: NDArray[np.float64],
    bounds: NDArray[np.int64],
    all_members: NDArray[np.int64],
    order: NDArray[np.int64],
    batch: NDArray[np.int32],
    sizes: NDArray[np.int64],
    counts: NDArray[np.int32],
    wishes: NDArray[np.int32],
    marks: NDArray[np.int64],
    queues: NDArray[np.int64],
    low: int,
    high: int,
    key: np.uint64,
    heat: float,
) -> Any:
    """`wishes[a, b]` is a unit of a that would rather be in b, which has no room."""
    votes = np.zeros(len(sizes), np.int32)
    tried = np.empty(_TRIED, np.int32)
    total, moved, stamp = 0.0, 0, 0
    for unit in order:
        members = all_members[bounds[unit] : bounds[unit + 1]]
        weight = len(members)
        own = batch[members[0]]
        kept = _candidates(offsets, neighbours, out_offsets, out_neighbours, members, batch, own, key, votes, tried)
        if kept == 0:
            continue
        saved = -_transfer(offsets, neighbours, by_hop, counts, queues, members, batch, sizes, -1)
        best, full = own, np.int32(-1)
        best_change, full_change = 0.0, 0.0
        if heat > 0:
            best_change = full_change = -heat * np.log(1.0 - draw_unit(key, members[0], 0))
        may_leave = sizes[own] >= low
        for i in range(kept):
            label = tried[i]
            has_room = may_leave and sizes[label] + weight <= high
            bar = best_change if has_room else full_change
            stamp += 1
            price = _price_of_joining(offsets, neighbours, by_hop, counts[label], marks, stamp, queues, members, saved + bar)
            if price - saved < bar - 1e-12 * saved:
                if has_room:
                    best, best_change = label, price - saved
                else:
                    full, full_change = label, price - saved
        change = _transfer(offsets, neighbours, by_hop, counts, queues, members, batch, sizes, best) - saved
        total += change
        if best != own:
            moved += 1
        elif full >= 0:
            wish = wishes[full, own]
            wishes[own, full] = unit
            if wish >= 0 and batch[all_members[bounds[wish]]] == full:
                theirs = all_members[bounds[wish] : bounds[wish + 1]]
                fits = sizes[own] - weight + len(theirs) <= high and sizes[full] + weight - len(theirs) <= high
                fits = fits and sizes[own] - weight + len(theirs) >= low and sizes[full] + weight - len(theirs) >= low
                if fits:
                    change = _transfer(offsets, neighbours, by_hop, counts, queues, members, batch, sizes, full)
                    change += _transfer(offsets, neighbours, by_hop, counts, queues, theirs, batch, sizes, own)
                    if change < 0:
                        total += change
                        moved += 2
                        wishes[own, full] = wishes[full, own] = -1
                    else:
                        _transfer(offsets, neighbours, by_hop, counts, queues, theirs, batch, sizes, full)
                        _transfer(offsets, neighbours, by_hop, counts, queues, members, batch, sizes, own)
    return total, moved
