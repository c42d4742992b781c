"""One training step before it has any features: which nodes and edges each layer computes on.

A plan is made of plain arrays over the *rows* of the graph it was made from (positions of a graph directory, or local rows of a
shard). An engine fills it with features and labels; a model computes on what the engine filled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Block:
    """The edges of one layer: destination i is source i; sources beyond the destinations are neighbours only.

    Edges of destination i are offsets[i] … offsets[i + 1] − 1; `neighbours` are source numbers of this block, `edge` the entry of
    each edge in the neighbour lists it was taken from (edge tables are read by it), empty where the block is those lists, entry by
    entry. Where edges are missing, `row_scale` [D] or `edge_scale` [E] makes up for them: 1 / probability of being taken where
    they were sampled, in-degree / edges left where a cluster leaves out its surroundings. Both are None where all edges are there.
    `degree` [S] are in-degrees where they are not the whole graph's: those of the past that a row is seen in.
    """

    offsets: NDArray[np.int64]
    neighbours: NDArray[np.int32]
    edge: NDArray[Any]
    sources: int
    row_scale: NDArray[np.float32] | None = None
    edge_scale: NDArray[np.float32] | None = None
    degree: NDArray[np.int64] | None = None

    @property
    def destinations(self) -> int:
        """D, the rows that this layer gives."""
        return len(self.offsets) - 1


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """What one step computes: `blocks` outermost first, one a layer.

    `inputs` are the graph rows whose features enter the first block, its sources in order. `targets` are the rows the loss is
    taken on, `outputs` their row numbers among the last block's destinations, `loss_weight` [T] how much each counts (None:
    equally); the weights of a step add up to 1 on average. The same block may stand for every layer (global and cluster batches,
    GraphSAINT).
    """

    epoch: int
    step: int
    inputs: NDArray[Any]
    blocks: tuple[Block, ...]
    targets: NDArray[Any]
    outputs: NDArray[Any]
    loss_weight: NDArray[np.float32] | None = None

    @property
    def repeats(self) -> bool:
        """Whether a node may stand among the inputs more than once: where it is seen at several times (timed.py)."""
        return any(block.degree is not None for block in self.blocks)
