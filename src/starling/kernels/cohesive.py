"""Batches of targets and what they need hop by hop: costs of batches, and counts that make the cost of a move exact.

Everything here is CM-GCN's C(B) in a form made for loops: a node whose nearest target is t hops away, against the direction of
edges, costs `by_distance[t]` of it; from K hops on it costs nothing (plan/cost.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.parallel import parallel_for, worthwhile_threads


def batch_costs(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    batch: NDArray[np.int32],
    by_distance: NDArray[np.float64],
    threads: int | None = None,
) -> NDArray[np.float64]:
    """C(B) of batches 0 … max(batch); a node of batch −1 is nobody's target. One search outwards for each batch."""
    targets, bounds = by_batch(batch)
    costs = np.zeros(len(bounds) - 1)
    parallel_for(
        len(costs),
        lambda start, stop: _batch_costs(offsets, neighbours, targets, bounds, by_distance, costs, start, stop),
        worthwhile_threads(len(neighbours), threads),
    )
    return costs


def by_batch(batch: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Targets batch by batch, in each ascending, and the bounds of the batches in that list."""
    counts = np.bincount(batch[batch >= 0])
    order = np.argsort(batch, kind="stable")
    return order[len(batch) - int(counts.sum()) :].astype(np.int64), np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@compiled
def _batch_costs(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    targets: NDArray[np.int64],
    bounds: NDArray[np.int64],
    by_distance: NDArray[np.float64],
    costs: NDArray[np.float64],
    start: int,
    stop: int,
) -> None:
    """Breadth-first search from each batch in [start, stop); `seen` is the last batch that reached a node."""
    hops, nodes = by_distance.shape
    seen = np.full(nodes, -1, np.int64)
    queue = np.empty(nodes, np.int64)
    for b in range(start, stop):
        end = 0
        for i in range(bounds[b], bounds[b + 1]):
            seen[targets[i]] = b
            queue[end] = targets[i]
            end += 1
        total, at = 0.0, 0
        for hop in range(hops):
            level = end
            while at < level:
                node = queue[at]
                at += 1
                total += by_distance[hop, node]
                if hop + 1 == hops:
                    continue
                for k in range(offsets[node], offsets[node + 1]):
                    other = neighbours[k]
                    if seen[other] != b:
                        seen[other] = b
                        queue[end] = other
                        end += 1
        costs[b] = total
