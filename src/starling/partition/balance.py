"""The balancing pass: after any method, bring every chosen load of every part within a tolerance (DistDGLv2 §5.3.2).

A load is a sum of node weights: nodes themselves, training nodes, edges, nodes of a type. A part is overloaded by what it
holds beyond (1 + tolerance) × mean. Rounds of one stream pass each count how the neighbours of movable nodes — those that
weigh in an overloaded part — are spread over the parts, then move the cheapest first: fewest edges cut for the overload
relieved. Every move lowers the total overload, so the pass ends; what it could not reach is reported, not hidden.

Memory: O(V) plus a row of p counts and the weights for each movable node, as many nodes a round as the budget allows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.assignment import Assignment, Note
from starling.core.keyed import permutation, stream_key
from starling.core.progress import SILENT, Progress
from starling.kernels.partition.balance import count_neighbour_parts, make_moves, price_moves
from starling.partition.passes import pass_bytes
from starling.stream.edges import EdgeStream

_ROUNDS = 30
_BLOCK = 1 << 20
_BYTES_PER_NODE = 44
"""Owners before and after, locality, rows of nodes, masks, and the movable nodes with a random order of them."""
_BYTES_PER_ROW = 48
"""Of a movable node, beside counts and weights: its number, part, price and rank."""
_LEAST_ROWS = 1 << 14


@dataclass(frozen=True)
class Load:
    """Something to spread evenly: a name and a weight (0 or more) per node."""

    name: str
    weight: NDArray[Any]


def memory_for_balance(edges: EdgeStream, loads: Sequence[Load], parts: int, rows: int = _LEAST_ROWS) -> int:
    """What balancing holds with so many movable nodes a round, the loads themselves included."""
    fixed = edges.nodes * _BYTES_PER_NODE + sum(load.weight.nbytes for load in loads) + pass_bytes(edges)
    return fixed + min(rows, edges.nodes) * _row_bytes(parts, len(loads) + 1)


def _row_bytes(parts: int, loads: int) -> int:
    return 4 * parts + 8 * loads + _BYTES_PER_ROW


def balance(
    assignment: Assignment,
    edges: EdgeStream,
    loads: Sequence[Load],
    *,
    tolerance: float = 0.05,
    memory: int = 1 << 30,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Assignment:
    """Move the fewest boundary nodes, at the least cut, until every load is within tolerance.

    Node counts are always among the loads, so that mending one balance does not spoil that one. `memory` is for all that is
    held here, the loads included; below `memory_for_balance` it is not kept to.
    """
    free = memory - memory_for_balance(edges, loads, assignment.parts, rows=0)
    room = max(_LEAST_ROWS, free // _row_bytes(assignment.parts, len(loads) + 1))
    loads = [Load("nodes", np.ones(len(assignment.owner), np.uint8)), *loads]
    owner = np.array(assignment.owner, np.int32)
    parts = assignment.parts
    held, caps, means = _loads_and_caps(owner, parts, loads, tolerance)
    moved, rounds = 0, 0
    while rounds < _ROUNDS and (held > caps[:, None]).any():
        movable = _movable(owner, held, caps, loads, room=room, key=stream_key(seed, "balance", rounds))
        weights = np.empty((len(movable), len(loads)))
        for column, load in enumerate(loads):
            weights[:, column] = load.weight[movable] / means[column]
        counts = _neighbour_parts(edges, owner, movable, parts, progress)
        part = owner[movable]
        price = np.empty(len(movable))
        scaled, scaled_caps = held / means[:, None], caps / means
        price_moves(counts, scaled, scaled_caps, weights, part, price)
        order = np.argsort(price, kind="stable")[: int(np.isfinite(price).sum())]
        moves = make_moves(order, counts, scaled, scaled_caps, weights, part)
        owner[movable] = part
        held = _held(owner, parts, loads)
        moved, rounds = moved + moves, rounds + 1
        if moves == 0 and len(movable) == _count_movable(owner, held, caps, loads):
            break
    notes: dict[str, Note] = {**assignment.notes, "balance_moves": moved, "balance_passes": rounds}
    for load, row in zip(loads, held, strict=True):
        notes[f"balance_{load.name}"] = round(float(row.max() * parts / row.sum()), 4) if row.sum() else 1.0
    return dataclasses.replace(assignment, owner=owner, passes=assignment.passes + rounds, notes=notes)


def _loads_and_caps(
    owner: NDArray[np.int32], parts: int, loads: Sequence[Load], tolerance: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """What each part holds of each load, the most it may hold, and the mean (at least 1, to divide by).

    No cap is below what whole nodes can reach: the next whole number above the mean, or the heaviest node.
    """
    held = _held(owner, parts, loads)
    means = held.sum(axis=1) / parts
    heaviest = np.array([float(load.weight.max(initial=0)) for load in loads])
    caps = np.maximum.reduce([means * (1 + tolerance), np.ceil(means), heaviest])
    return held, caps, np.maximum(means, 1.0)


def _held(owner: NDArray[np.int32], parts: int, loads: Sequence[Load]) -> NDArray[np.float64]:
    held = np.zeros((len(loads), parts))
    for start in range(0, len(owner), _BLOCK):  # bincount makes wide copies of what it is given
        block = slice(start, start + _BLOCK)
        for row, load in zip(held, loads, strict=True):
            row += np.bincount(owner[block], load.weight[block], minlength=parts)
    return held


def _is_movable(
    owner: NDArray[np.int32], held: NDArray[np.float64], caps: NDArray[np.float64], loads: Sequence[Load]
) -> NDArray[np.bool_]:
    movable = np.zeros(len(owner), bool)
    for load, row, cap in zip(loads, held, caps, strict=True):
        movable |= (row > cap)[owner] & (load.weight > 0)
    return movable


def _count_movable(
    owner: NDArray[np.int32], held: NDArray[np.float64], caps: NDArray[np.float64], loads: Sequence[Load]
) -> int:
    return int(_is_movable(owner, held, caps, loads).sum())


def _movable(
    owner: NDArray[np.int32],
    held: NDArray[np.float64],
    caps: NDArray[np.float64],
    loads: Sequence[Load],
    *,
    room: int,
    key: np.uint64,
) -> NDArray[np.int64]:
    """Nodes that weigh in an overloaded part; a random choice of `room` of them when there are more."""
    nodes = np.flatnonzero(_is_movable(owner, held, caps, loads))
    if len(nodes) <= room:
        return nodes
    return np.sort(nodes[permutation(key, len(nodes))[:room]])


def _neighbour_parts(
    edges: EdgeStream, owner: NDArray[np.int32], movable: NDArray[np.int64], parts: int, progress: Progress
) -> NDArray[np.int32]:
    """For each movable node, its neighbours counted by part: one pass over the stream."""
    row_of_node = np.full(len(owner), -1, np.int32)
    row_of_node[movable] = np.arange(len(movable), dtype=np.int32)
    counts = np.zeros((len(movable), parts), np.int32)
    with progress.task("balance", edges.edges) as task:
        for block in edges.blocks():
            count_neighbour_parts(block.pairs, owner, row_of_node, edges.directed, counts)
            task.advance(len(block.pairs))
    return counts
