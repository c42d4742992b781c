"""GATv2's scores a · LeakyReLU(z[u] + t[v]) of every edge, and their gradients; the sum is made again each time, never kept.

Forward and backward read one row an edge each; nothing of size edges × features exists.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled_dots
from starling.kernels.adjacency import Adjacency, Work, run_edges
from starling.kernels.parallel import cut_ranges, parallel_for

_U = np.uint64
_CHUNKS = 64


def pair_scores(
    adjacency: Adjacency,
    source: NDArray[Any],
    row: NDArray[Any],
    vector: NDArray[Any],
    slope: float,
    score: NDArray[Any],
    threads: int | None = None,
) -> None:
    """Write score[e, h] = ⟨vector[h], LeakyReLU(source[u] + row[v])⟩; source [columns, HF], row [rows, HF], vector [H, F]."""
    run_edges(adjacency, row.shape[1], threads, _scores, adjacency.neighbours, source, row, vector, slope, score)


def pair_backward(
    adjacency: Adjacency,
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
    for work, out in ((adjacency.ordinary, row_gradient), (adjacency.hubs, None)):
        if work is not None:
            target = np.empty((len(work.owner), row.shape[1]), row.dtype) if out is None else out
            parts.append(_backward(adjacency, work, other, row, vector, slope, gradient, target, threads))
            if out is None:
                row_gradient[work.owner] = 0
                np.add.at(row_gradient, work.owner, target)
    total: NDArray[Any] = np.sum(parts, axis=0).reshape(vector.shape)
    return total


def _backward(
    adjacency: Adjacency,
    work: Work,
    other: NDArray[Any],
    row: NDArray[Any],
    vector: NDArray[Any],
    slope: float,
    gradient: NDArray[Any],
    out: NDArray[Any],
    threads: int | None,
) -> NDArray[Any]:
    offsets = adjacency.offsets if len(work.owner) == 0 else None
    bounds = cut_ranges(len(work.begin), _CHUNKS, offsets)
    vectors = np.zeros((max(len(bounds) - 1, 1), row.shape[1]), row.dtype)

    def chunks(start: int, stop: int) -> None:
        for c in range(start, stop):
            _gradients(
                work.begin, work.end, work.owner, work.limit, adjacency.neighbours, adjacency.edges, other, row, vector, slope,
                gradient, out, vectors[c], bounds[c], bounds[c + 1],
            )  # fmt: skip

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
            u = _U(neighbours[k])
            for h in range(heads):
                total = zero
                for f in range(width):
                    value = source[u, h * width + f] + row[r, h * width + f]
                    total += vector[h, f] * (max(value, zero) + gentle * min(value, zero))
                score[k, h] = total


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
            u = _U(neighbours[k])
            e = edges[k] if len(edges) else k
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
