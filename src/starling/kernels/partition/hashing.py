"""Parts drawn from node numbers alone: 1D, 2D, and by the end of lower degree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw_below


@compiled
def hash_nodes(key: np.uint64, parts: int, first: int, last: int, part: NDArray[np.int32]) -> None:
    """The part of each node of first … last − 1."""
    for node in range(first, last):
        part[node] = np.int64(draw_below(key, node, 0, parts))


@compiled
def place_by_source(
    pairs: NDArray[np.int32], owner: NDArray[np.int32], first: int, last: int, placed: NDArray[np.uint16]
) -> None:
    """Each edge is where its source is owned."""
    for i in range(first, last):
        placed[i] = owner[pairs[i, 0]]


@compiled
def place_on_grid(
    pairs: NDArray[np.int32], key: np.uint64, rows: int, columns: int, first: int, last: int, placed: NDArray[np.uint16]
) -> None:
    """Each edge is in its source's row and its destination's column of the grid of parts."""
    for i in range(first, last):
        row = np.int64(draw_below(key, pairs[i, 0], 0, rows))
        column = np.int64(draw_below(key, pairs[i, 1], 1, columns))
        placed[i] = row * columns + column


@compiled
def place_by_lower_degree(
    pairs: NDArray[np.int32],
    degree: NDArray[np.int32],
    key: np.uint64,
    parts: int,
    first: int,
    last: int,
    placed: NDArray[np.uint16],
) -> None:
    """Each edge is where its end of lower degree hashes to (of equals, the lower number)."""
    for i in range(first, last):
        u, v = pairs[i, 0], pairs[i, 1]
        if degree[u] > degree[v] or (degree[u] == degree[v] and u > v):
            u = v
        placed[i] = np.int64(draw_below(key, u, 0, parts))
