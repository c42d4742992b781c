"""`grid`: the 2D vertex-cut, parts in rows and columns (GraphTheta §5.4)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from starling.core.keyed import stream_key
from starling.kernels.parallel import parallel_for
from starling.kernels.partition.hashing import place_on_grid
from starling.partition.contract import PartitionTask
from starling.partition.passes import Pairs
from starling.partition.vertex_cut import VertexCut, place_edges


class Grid(VertexCut):
    """An edge is in the row its source hashes to and the column its destination hashes to.

    A node then has at most rows + columns − 1 replicas. Rows × columns = p as square as it can be; for a prime p that is one
    row, and the grid is the 1D partition by destination.
    """

    name = "grid"
    summary = "2D: an edge's part is its source's row and its destination's column of a grid"
    source = "GraphTheta §5.4"
    passes = 1
    node_bytes = 0
    keeps_replicas = False

    def _place(self, task: PartitionTask) -> NDArray[np.uint16]:
        rows, columns = grid_shape(task.parts)
        key = stream_key(task.seed, "partition/grid")

        def place(pairs: Pairs, placed: NDArray[np.uint16]) -> None:
            def run(first: int, last: int) -> None:
                place_on_grid(pairs, key, rows, columns, first, last, placed)

            parallel_for(len(pairs), run, task.threads)

        return place_edges(task, place)


def grid_shape(parts: int) -> tuple[int, int]:
    """Rows and columns whose product is `parts`, rows the largest divisor up to its square root."""
    rows = max(d for d in range(1, math.isqrt(parts) + 1) if parts % d == 0)
    return rows, parts // rows
