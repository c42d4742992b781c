"""Keyed random walks along in-edges: from a node to those it hears from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw_below
from starling.kernels.csr import Csr
from starling.kernels.parallel import parallel_for, worthwhile_threads


def random_walks(lists: Csr, roots: NDArray[Any], length: int, key: np.uint64, threads: int | None = None) -> NDArray[Any]:
    """The nodes of one walk from each root [R, length + 1]; a walk stays where there is no in-edge to follow.

    Step s of walk i follows the in-edge in a slot drawn for (key, i, s), each equally likely.
    """
    visited = np.empty((len(roots), length + 1), lists.neighbours.dtype)
    visited[:, 0] = roots
    parallel_for(
        len(roots),
        lambda start, stop: _walk(lists.offsets, lists.neighbours, key, visited, start, stop),
        worthwhile_threads(visited.size, threads),
    )
    return visited


@compiled
def _walk(
    offsets: NDArray[np.int64], neighbours: NDArray[Any], key: np.uint64, visited: NDArray[Any], start: int, stop: int
) -> None:
    for i in range(start, stop):
        for s in range(visited.shape[1] - 1):
            row = np.uint64(visited[i, s])
            first = offsets[row]
            degree = offsets[row + np.uint64(1)] - first
            if degree > 0:
                visited[i, s + 1] = neighbours[first + draw_below(key, i, s, degree)]
            else:
                visited[i, s + 1] = visited[i, s]
