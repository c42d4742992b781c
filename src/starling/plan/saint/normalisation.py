"""How often each node and edge is in a sub-graph, counted over sub-graphs drawn beforehand (GraphSAINT §3.2, Algorithm 1).

With the true chances p_v and p_uv in place of counts, the loss of a step is unbiased, and so is each layer's sum given its input:
α_uv = p_uv / p_v divides every edge of the sub-graph, λ_v = |train| p_v every target's loss. Counts over N sub-graphs estimate both
(p_v ≈ C_v / N), which makes them ratio estimators: consistent, with a bias of the order 1 / C that `coverage` keeps small. As in
the paper, layers share a sub-graph and have activations between them, so the gradient as a whole is not unbiased.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.kernels.csr import Csr
from starling.kernels.induced import count_within


@dataclass(eq=False)
class Counts:
    """Sub-graphs drawn, and in how many of them each row (C_v) and each entry of the neighbour lists (C_uv) was."""

    rows: NDArray[np.int32]
    entries: NDArray[np.int32]
    drawn: int = 0

    def add(self, lists: Csr, rows: NDArray[Any], places: NDArray[np.int32], threads: int | None = None) -> None:
        """Count one sub-graph, its rows and the edges among them; `places` is −1 for all rows of the graph but its own."""
        self.rows[rows] += 1
        count_within(lists, rows, places, self.entries, threads)
        self.drawn += 1

    def edge_scale(self, rows: NDArray[Any], offsets: NDArray[np.int64], entries: NDArray[Any]) -> NDArray[np.float32]:
        """C_v / C_uv of each edge u → v: 1 / the chance that an edge is there when its destination is.

        Seldom nodes that no counted sub-graph held are taken as held once, with all their edges.
        """
        destination = np.repeat(np.maximum(self.rows[rows], 1), np.diff(offsets))
        scale: NDArray[np.float32] = (destination / np.maximum(self.entries[entries], 1)).astype(np.float32)
        return scale

    def loss_weight(self, targets: NDArray[Any], of: int) -> NDArray[np.float32]:
        """1 / (p_v · `of`): the sum of weighted losses over a sub-graph is, on average, the mean loss of `of` training nodes."""
        weight: NDArray[np.float32] = (self.drawn / (np.maximum(self.rows[targets], 1) * float(of))).astype(np.float32)
        return weight


def no_counts(rows: int, entries: int) -> Counts:
    """Nothing drawn yet."""
    return Counts(np.zeros(rows, np.int32), np.zeros(entries, np.int32))
