"""Values of edges from the rows at their two ends: GAT's additive scores, dot products, dropout; each [E, H] by edge number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled, compiled_dots
from starling.core.keyed import draw, mix64
from starling.kernels.adjacency import Lists, number_of, run_edges, run_lists
from starling.kernels.dropout import drop_threshold
from starling.kernels.machine import prefetch
from starling.kernels.rows import Rows
from starling.kernels.spmm import Coefficients

_U = np.uint64


def additive_scores(
    edges: Lists,
    source: NDArray[Any],
    row: NDArray[Any],
    edge: NDArray[Any],
    slope: float,
    score: NDArray[Any],
    threads: int | None = None,
) -> None:
    """GAT's scores LeakyReLU(source[u] + row[v] + edge[e]), all [·, H]; `edge` may be empty."""
    run_edges(edges, 2 * score.shape[1], threads, _additive, source, row, edge, slope, score)


def additive_backward(
    edges: Lists,
    source: NDArray[Any],
    row: NDArray[Any],
    edge: NDArray[Any],
    slope: float,
    gradient: NDArray[Any],
    row_gradient: NDArray[Any],
    threads: int | None = None,
) -> None:
    """Multiply the scores' gradient [E, H] by LeakyReLU's slope, in place, and write its sum over each row [rows, H]."""
    cost, ends = 2 * gradient.shape[1], (source, row, edge, slope)
    run_lists(edges, edges.ordinary, cost, threads, _additive_backward, *ends, gradient, row_gradient)
    hubs = edges.hubs
    if hubs is not None:
        pieces = np.empty((len(hubs.owner), gradient.shape[1]), gradient.dtype)
        run_lists(edges, hubs, cost, threads, _additive_backward, *ends, gradient, pieces)
        row_gradient[hubs.owner] = 0
        np.add.at(row_gradient, hubs.owner, pieces)


def edge_dots(
    edges: Lists, coefficients: Coefficients, gradient: Rows, x: Rows, out: NDArray[Any], threads: int | None = None
) -> None:
    """The gradient of the edge weights of R (W + L) C x: out[e, h] = r_v c_u ⟨gradient[v], x[u]⟩ of head h."""
    heads = coefficients.heads
    width = min(gradient.width, x.width) // (heads if gradient.width == x.width else 1)
    row_step, x_step = (width if rows.width == width * heads else 0 for rows in (gradient, x))
    run_edges(
        edges, width * heads, threads, _dots, coefficients.source, coefficients.row, gradient.flat,
        gradient.stride, row_step, x.flat, x.stride, x_step, width, out,
    )  # fmt: skip


def drop_edges(
    edges: Lists,
    weight: NDArray[Any],
    row_position: NDArray[np.int64],
    source_position: NDArray[np.int64],
    key: np.uint64,
    probability: float,
    out: NDArray[Any],
    threads: int | None = None,
) -> None:
    """Dropout of edge weights [E, H]; an edge's fate is keyed by the positions of its two ends and the head, not its number."""
    threshold, scale = drop_threshold(probability)
    run_edges(
        edges, 4 * weight.shape[1], threads, _drop_edges, weight, row_position, source_position, key, threshold,
        weight.dtype.type(scale), out,
    )  # fmt: skip


@compiled
def _additive(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    neighbours: NDArray[np.int32],
    edges: NDArray[Any],
    source: NDArray[Any],
    row: NDArray[Any],
    edge: NDArray[Any],
    slope: float,
    score: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    gentle = score.dtype.type(slope)
    for item in range(start, stop):
        if end[item] - begin[item] > limit:
            continue
        r = owner[item] if len(owner) else item
        for k in range(begin[item], end[item]):
            u, e = _U(neighbours[k]), number_of(edges, k)
            for h in range(score.shape[1]):
                value = source[u, h] + row[r, h]
                if len(edge):
                    value += edge[e, h]
                score[e, h] = value if value > 0 else gentle * value


@compiled
def _additive_backward(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    neighbours: NDArray[np.int32],
    edges: NDArray[Any],
    source: NDArray[Any],
    row: NDArray[Any],
    edge: NDArray[Any],
    slope: float,
    gradient: NDArray[Any],
    sums: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    gentle = gradient.dtype.type(slope)
    for item in range(start, stop):
        if end[item] - begin[item] > limit:
            continue
        r = owner[item] if len(owner) else item
        for h in range(gradient.shape[1]):
            sums[item, h] = 0
        for k in range(begin[item], end[item]):
            u, e = _U(neighbours[k]), number_of(edges, k)
            for h in range(gradient.shape[1]):
                value = source[u, h] + row[r, h]
                if len(edge):
                    value += edge[e, h]
                if value <= 0:
                    gradient[e, h] *= gentle
                sums[item, h] += gradient[e, h]


@compiled_dots
def _dots(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    neighbours: NDArray[np.int32],
    edges: NDArray[Any],
    source_scale: NDArray[Any],
    row_scale: NDArray[Any],
    rows: NDArray[Any],
    row_stride: int,
    row_step: int,
    x: NDArray[Any],
    x_stride: int,
    x_step: int,
    width: int,
    out: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    heads, last = out.shape[1], len(neighbours)
    ahead = min(x_step * (heads - 1) + width, 64)
    for item in range(start, stop):
        if end[item] - begin[item] > limit:
            continue
        row = owner[item] if len(owner) else item
        for k in range(begin[item], end[item]):
            if k + 8 < last:
                for c in range(0, ahead, 16):
                    prefetch(x, np.int64(neighbours[k + 8]) * x_stride + c)
            u, e = _U(neighbours[k]), number_of(edges, k)
            scale = out.dtype.type(1)
            if len(source_scale):
                scale *= source_scale[u]
            if len(row_scale):
                scale *= row_scale[row]
            for h in range(heads):
                here, there = _U(row * row_stride + h * row_step), u * _U(x_stride) + _U(h * x_step)
                total = out.dtype.type(0)
                for f in range(_U(width)):
                    total += rows[here + f] * x[there + f]
                out[e, h] = scale * total


@compiled
def _drop_edges(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    neighbours: NDArray[np.int32],
    edges: NDArray[Any],
    weight: NDArray[Any],
    row_position: NDArray[np.int64],
    source_position: NDArray[np.int64],
    key: np.uint64,
    threshold: int,
    scale: float,
    out: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    for item in range(start, stop):
        if end[item] - begin[item] > limit:
            continue
        row_key = mix64(_U(row_position[owner[item] if len(owner) else item]) ^ key)
        for k in range(begin[item], end[item]):
            bits, e = _U(0), number_of(edges, k)
            for h in range(weight.shape[1]):
                lane = h & 3
                if lane == 0:  # one draw serves four heads
                    bits = draw(row_key, source_position[neighbours[k]], h >> 2)
                kept = np.int64((bits >> _U(16 * lane)) & _U(0xFFFF)) >= threshold
                out[e, h] = weight[e, h] * scale if kept else 0
