"""GATv2's scores a · LeakyReLU(z[u] + t[v]) of every edge, and their gradients; the sum is made again each time, never kept.

Forward and backward read one row an edge each; nothing of size edges × features exists.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled_dots
from starling.kernels.adjacency import Lists, Work, number_of, on_read, run_edges, works
from starling.kernels.parallel import cut_ranges, parallel_for

_U = np.uint64
_CHUNKS = 64


def pair_scores(
    edges: Lists,
    source: NDArray[Any],
    row: NDArray[Any],
    vector: NDArray[Any],
    slope: float,
    score: NDArray[Any],
    threads: int | None = None,
) -> None:
    """Write score[e, h] = ⟨vector[h], LeakyReLU(source[u] + row[v])⟩; source [columns, HF], row [rows, HF], vector [H, F]."""
    run_edges(edges, row.shape[1], threads, _scores, source, row, vector, slope, score)


def pair_backward(
    edges: Lists,
    other: NDArray[Any],
    row: NDArray[Any],
    vector: NDArray[Any],
    slope: float,
    gradient: NDArray[Any],
    row_gradient: NDArray[Any],
    threads: int | None = None,
) -> NDArray[Any]:
    """Write the gradient of one side's rows from that of the scores [E, H], and return the gradient of `vector` [H, F].

    The score is symmetric in its two ends, so the other side's rows are this function on the transposed adjacency. Chunks are
    cut by the graph alone, so that the vector's gradient is summed in the same order by any number of threads.
    """
    parts = []
    for work in works(edges):
        pieces = len(work.owner) > 0
        target = np.empty((len(work.owner), row.shape[1]), row.dtype) if pieces else row_gradient
        parts.append(_backward(edges, work, other, row, vector, slope, gradient, target, threads))
        if pieces:
            row_gradient[work.owner] = 0
            np.add.at(row_gradient, work.owner, target)
    total: NDArray[Any] = np.sum(parts, axis=0).reshape(vector.shape)
    return total


def _backward(
    edges: Lists,
    work: Work,
    other: NDArray[Any],
    row: NDArray[Any],
    vector: NDArray[Any],
    slope: float,
    gradient: NDArray[Any],
    out: NDArray[Any],
    threads: int | None,
) -> NDArray[Any]:
    bounds = cut_ranges(len(work.begin), _CHUNKS, work.before)
    vectors = np.zeros((max(len(bounds) - 1, 1), row.shape[1]), row.dtype)

    def chunks(start: int, stop: int) -> None:
        for c in range(start, stop):
            over_items = on_read(work, _gradients, other, row, vector, slope, gradient, out, vectors[c])
            edges.read(work, int(bounds[c]), int(bounds[c + 1]), over_items)

    parallel_for(len(bounds) - 1, chunks, 1 if gradient.size * row.shape[1] < 1 << 17 else threads)
    total: NDArray[Any] = vectors.sum(axis=0)
    return total


@compiled_dots
def _scores(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    neighbours: NDArray[np.int32],
    edges: NDArray[Any],
    source: NDArray[Any],
    row: NDArray[Any],
    vector: NDArray[Any],
    slope: float,
    score: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    heads, width = vector.shape
    gentle, zero = score.dtype.type(slope), score.dtype.type(0)
    for item in range(start, stop):
        if end[item] - begin[item] > limit:
            continue
        r = owner[item] if len(owner) else item
        for k in range(begin[item], end[item]):
            u, e = _U(neighbours[k]), number_of(edges, k)
            for h in range(heads):
                total = zero
                for f in range(width):
                    value = source[u, h * width + f] + row[r, h * width + f]
                    total += vector[h, f] * (max(value, zero) + gentle * min(value, zero))
                score[e, h] = total


@compiled_dots
def _gradients(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    neighbours: NDArray[np.int32],
    edges: NDArray[Any],
    other: NDArray[Any],
    row: NDArray[Any],
    vector: NDArray[Any],
    slope: float,
    gradient: NDArray[Any],
    out: NDArray[Any],
    vector_gradient: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    heads, width = vector.shape
    gentle, zero, one = gradient.dtype.type(slope), gradient.dtype.type(0), gradient.dtype.type(1)
    for item in range(start, stop):
        if end[item] - begin[item] > limit:
            continue
        r = owner[item] if len(owner) else item
        for f in range(heads * width):
            out[item, f] = 0
        for k in range(begin[item], end[item]):
            u, e = _U(neighbours[k]), number_of(edges, k)
            for h in range(heads):
                g = gradient[e, h]
                for f in range(width):
                    c = h * width + f
                    value = other[u, c] + row[r, c]
                    out[item, c] += g * (one if value > 0 else gentle)
                    vector_gradient[c] += g * (max(value, zero) + gentle * min(value, zero))
        for h in range(heads):
            for f in range(width):
                out[item, h * width + f] *= vector[h, f]
