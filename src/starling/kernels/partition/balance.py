"""Loops of the balancing pass: how the neighbours of movable nodes are spread, and which moves to make."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled


@compiled
def count_neighbour_parts(
    pairs: NDArray[Any], owner: NDArray[np.int32], row_of_node: NDArray[np.int32], both_ends: bool, counts: NDArray[np.int32]
) -> None:
    """Add to ``counts[row, part]`` the neighbours that each movable node has in each part."""
    for i in range(len(pairs)):
        source, destination = pairs[i, 0], pairs[i, 1]
        if source == destination:
            continue
        row = row_of_node[destination]
        if row >= 0:
            counts[row, owner[source]] += 1
        if both_ends:
            row = row_of_node[source]
            if row >= 0:
                counts[row, owner[destination]] += 1


@compiled
def overload_change(
    loads: NDArray[np.float64], caps: NDArray[np.float64], weight: NDArray[np.float64], source: int, target: int
) -> float:
    """How much the total overload Σ max(0, load − cap) changes when a node moves from one part to another."""
    change = 0.0
    for c in range(len(caps)):
        if weight[c] > 0:
            change += max(0.0, loads[c, target] + weight[c] - caps[c]) - max(0.0, loads[c, target] - caps[c])
            change += max(0.0, loads[c, source] - weight[c] - caps[c]) - max(0.0, loads[c, source] - caps[c])
    return change


@compiled
def best_move(
    counts: NDArray[np.int32],
    loads: NDArray[np.float64],
    caps: NDArray[np.float64],
    weight: NDArray[np.float64],
    source: int,
) -> tuple[int, float]:
    """The part to move a node to, and the edges cut per unit of overload relieved; (−1, 0) when no move relieves any."""
    best, best_price = -1, np.inf
    for target in range(len(counts)):
        if target == source:
            continue
        relief = -overload_change(loads, caps, weight, source, target)
        if relief > 1e-12:
            lost = float(counts[source] - counts[target])
            # A move that saves edges is worth more the more it saves; one that costs edges, the more it relieves.
            price = lost / relief if lost > 0 else lost
            if price < best_price:
                best, best_price = target, price
    return best, best_price


@compiled
def price_moves(
    counts: NDArray[np.int32],
    loads: NDArray[np.float64],
    caps: NDArray[np.float64],
    weights: NDArray[np.float64],
    part: NDArray[np.int32],
    price: NDArray[np.float64],
) -> None:
    """For every movable node, the price of its best move as loads stand now (infinite when it has none)."""
    for row in range(len(part)):
        target, cost = best_move(counts[row], loads, caps, weights[row], part[row])
        price[row] = cost if target >= 0 else np.inf


@compiled
def make_moves(
    order: NDArray[np.int64],
    counts: NDArray[np.int32],
    loads: NDArray[np.float64],
    caps: NDArray[np.float64],
    weights: NDArray[np.float64],
    part: NDArray[np.int32],
) -> int:
    """Move nodes in the given order while it relieves overload; loads and parts are updated. Returns the moves made."""
    moves = 0
    for row in order:
        source = part[row]
        target, _ = best_move(counts[row], loads, caps, weights[row], source)
        if target < 0:
            continue
        for c in range(len(caps)):
            loads[c, source] -= weights[row, c]
            loads[c, target] += weights[row, c]
        part[row] = target
        moves += 1
    return moves
