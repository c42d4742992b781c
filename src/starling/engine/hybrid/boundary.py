"""Boundary sampling (BNS-GCN): each part hears of every outside neighbour with probability p an epoch.

Whether part q hears of node u is drawn from (seed, epoch, q, u), so both sides know without a word, and the number of workers
changes nothing: what counts is the part. Edges that stay are scaled by 1 / p, which makes sums, and means by the whole degree,
unbiased. Attention and maxima take what is there, unscaled: their own normalisation does the rest (docs/engine.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.errors import InputError
from starling.core.keyed import draw_unit, stream_key
from starling.engine.hybrid.worker_graph import WorkerGraph
from starling.kernels.sampling import Taken


@dataclass(frozen=True, eq=False)
class Boundary:
    """Leaves out edges between parts, all those of a node to a part together."""

    graph: WorkerGraph
    probability: float
    seed: int

    def __post_init__(self) -> None:
        if self.probability < 1 and self.graph.spread:
            raise InputError(
                "--boundary drops neighbours of whole neighbour lists, got a vertex-cut. Partition into an edge-cut."
            )

    def thin(self, taken: Taken, rows: NDArray[Any], epoch: int) -> Taken:
        """The edges that stay in this epoch, of those taken for `rows`."""
        if self.probability == 1:
            return taken
        graph, key = self.graph, self.keys(epoch)
        scale = np.empty(len(taken.neighbours), np.float32)
        offsets = np.zeros_like(taken.offsets)
        _choose(taken.offsets, taken.neighbours, rows, graph.part, graph.position, key, self.probability, scale, offsets)
        stays = scale > 0
        given = 1 if taken.edge_scale is None else taken.edge_scale
        return Taken(
            offsets, taken.neighbours[stays], taken.entry[stays], taken.row_scale, (scale * given)[stays].astype(np.float32)
        )

    def wanted(self, epoch: int) -> list[NDArray[np.int64]]:
        """Own rows that each worker hears of in this epoch, ascending: the same draws as in `thin`, from the other side."""
        key, found = self.keys(epoch), []
        for rows, parts in self.graph.heard_by:
            heard = np.empty(len(rows), np.bool_)
            _hear(rows, parts, self.graph.position, key, self.probability, heard)
            found.append(np.unique(rows[heard]))
        return found

    def keys(self, epoch: int) -> NDArray[np.uint64]:
        """What the draws of each part are keyed by in this epoch."""
        return np.array(
            [stream_key(self.seed, f"boundary/{part}", epoch) for part in range(self.graph.manifest.parts)], np.uint64
        )


@compiled
def _hear(
    rows: NDArray[np.int64],
    parts: NDArray[np.int32],
    position: NDArray[np.int64],
    key: NDArray[np.uint64],
    probability: float,
    heard: NDArray[np.bool_],
) -> None:
    for i in range(len(rows)):
        heard[i] = draw_unit(key[parts[i]], position[rows[i]], 0) < probability


@compiled
def _choose(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    rows: NDArray[Any],
    part: NDArray[np.int32],
    position: NDArray[np.int64],
    key: NDArray[np.uint64],
    probability: float,
    scale: NDArray[np.float32],
    kept: NDArray[np.int64],
) -> None:
    """1 for an edge inside a part, 1 / p or 0 for one between parts; `kept` becomes the offsets of what stays."""
    count = 0
    for i in range(len(rows)):
        here = part[rows[i]]
        for k in range(offsets[i], offsets[i + 1]):
            source = neighbours[k]
            if part[source] == here:
                scale[k] = 1.0
            elif draw_unit(key[here], position[source], 0) < probability:
                scale[k] = 1.0 / probability
            else:
                scale[k] = 0.0
            if scale[k] > 0:
                count += 1
        kept[i + 1] = count
