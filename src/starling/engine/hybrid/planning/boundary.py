"""Boundary sampling (BNS-GCN): each part hears of every outside neighbour with probability p an epoch.

Whether part q hears of node u is drawn from (seed, epoch, q, u), so both sides know without a word, and the number of workers
changes nothing: what counts is the part. Edges that stay are scaled by 1 / p, which makes sums, and means by the whole degree,
unbiased. Attention and maxima take what is there, unscaled: their own normalisation does the rest (docs/engine.md). With `chances`
(`chances.py`) each pair of node and part has a p of its own: as many neighbours are heard of on average, the heavier ones more
often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw_unit, stream_key
from starling.engine.hybrid.planning.chances import Chances
from starling.engine.hybrid.share.worker_graph import WorkerGraph
from starling.kernels.adjacency import NO_NUMBERS, NO_ROWS
from starling.kernels.sampling import Taken

NO_CHANCES: NDArray[np.float32] = np.empty(0, np.float32)
Pairs: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]
"""Offsets by row, parts, chances."""


@dataclass(frozen=True, eq=False)
class Boundary:
    """Leaves out edges between parts, all those of a node to a part together."""

    graph: WorkerGraph
    probability: float
    seed: int
    chances: Chances | None = None

    def __post_init__(self) -> None:
        assert self.probability == 1 or not self.graph.spread, "lists were put together when the run began"

    def thin(self, taken: Taken, rows: NDArray[Any], epoch: int) -> Taken:
        """The edges that stay in this epoch, of those taken for `rows`."""
        if self.probability == 1:
            return taken
        graph, key = self.graph, self.keys(epoch)
        scale = np.empty(len(taken.neighbours), np.float32)
        offsets = np.zeros_like(taken.offsets)
        lists = (taken.offsets, taken.neighbours, rows, graph.part, graph.position)
        _choose(*lists, key, self.probability, *self.pairs, scale, offsets)
        stays = scale > 0
        given = 1 if taken.edge_scale is None else taken.edge_scale
        return Taken(
            offsets, taken.neighbours[stays], taken.entry[stays], taken.row_scale, (scale * given)[stays].astype(np.float32)
        )

    def wanted(self, epoch: int) -> list[NDArray[np.int64]]:
        """Own rows that each worker hears of in this epoch, ascending: the same draws as in `thin`, from the other side."""
        key, found = self.keys(epoch), list[NDArray[np.int64]]()
        for worker, (rows, parts) in enumerate(self.graph.heard_by):
            heard = np.empty(len(rows), np.bool_)
            chance = NO_CHANCES if self.chances is None else self.chances.told[worker]
            _hear(rows, parts, self.graph.position, key, self.probability, chance, heard)
            found.append(np.unique(rows[heard]))
        return found

    @property
    def pairs(self) -> Pairs:
        """`chances` as kernels take them: empty where all have the same."""
        known = self.chances
        return (NO_ROWS, NO_NUMBERS, NO_CHANCES) if known is None else (known.offsets, known.part, known.chance)

    def keys(self, epoch: int) -> NDArray[np.uint64]:
        """What the draws of each part are keyed by in this epoch."""
        return np.array(
            [stream_key(self.seed, f"boundary/{part}", epoch) for part in range(self.graph.manifest.parts)], np.uint64
        )


@compiled
def chance_of(
    row: int,
    part: int,
    probability: float,
    offsets: NDArray[np.int64],
    parts: NDArray[np.int32],
    chance: NDArray[np.float32],
) -> float:
    """By what chance a part hears of a row, as `Boundary.pairs` have it."""
    if len(chance) == 0:
        return probability
    pair = offsets[row]
    while parts[pair] != part:
        pair += 1
    return float(chance[pair])


@compiled
def _hear(
    rows: NDArray[np.int64],
    parts: NDArray[np.int32],
    position: NDArray[np.int64],
    key: NDArray[np.uint64],
    probability: float,
    chance: NDArray[np.float32],
    heard: NDArray[np.bool_],
) -> None:
    for i in range(len(rows)):
        heard[i] = draw_unit(key[parts[i]], position[rows[i]], 0) < (chance[i] if len(chance) else probability)


@compiled
def _choose(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    rows: NDArray[Any],
    part: NDArray[np.int32],
    position: NDArray[np.int64],
    key: NDArray[np.uint64],
    probability: float,
    pair_offsets: NDArray[np.int64],
    pair_part: NDArray[np.int32],
    pair_chance: NDArray[np.float32],
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
            else:
                chance = chance_of(source, here, probability, pair_offsets, pair_part, pair_chance)
                scale[k] = 1.0 / chance if draw_unit(key[here], position[source], 0) < chance else 0.0
            if scale[k] > 0:
                count += 1
        kept[i + 1] = count
