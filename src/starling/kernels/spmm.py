"""Weighted sums over neighbours: out = R (W + L) C x.

W holds a weight an edge (several, one a head), C a factor a source row, L a weight for each row's own value (a self-loop), R a
factor an output row; an absent one is the identity (L: zero). Sum, mean, GCN's D^-1/2 (A + I) D^-1/2 and attention are all this
operator; its transpose, the backward pass, is C (W' + L) R: the same kernel on the transposed adjacency, factors exchanged.

Cost: one read of a source row an edge, nothing else of that size; the running sums stay in registers (`lanes.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled_multiply_add
from starling.kernels.adjacency import Lists, number_of, run_lists
from starling.kernels.lanes import add_scattered
from starling.kernels.machine import widen
from starling.kernels.rows import Rows

_U = np.uint64
_CHUNK = 32
"""Neighbours whose weights are worked out before their rows are added; each further head reads the rows from the cache."""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The factors of R (W + L) C, each in the type sums are made in; an empty array is an absent factor.

    `edge` is [E · heads] by edge number, `source` [columns], `row` [rows], `own` [up to rows · heads] (rows beyond it have no
    self-loop). `heads` weights an edge.
    """

    edge: NDArray[Any]
    source: NDArray[Any]
    row: NDArray[Any]
    own: NDArray[Any]
    heads: int = 1

    def transposed(self) -> Coefficients:
        """The factors of the transposed operator C (W' + L) R."""
        return Coefficients(self.edge, self.row, self.source, self.own, self.heads)


def plain_sum(dtype: Any) -> Coefficients:
    """The coefficients of an unweighted sum."""
    none = np.empty(0, dtype)
    return Coefficients(none, none, none, none)


def weighted_sum(
    edges: Lists,
    coefficients: Coefficients,
    x: Rows,
    out: Rows,
    *,
    accumulate: bool = False,
    threads: int | None = None,
) -> None:
    """Write (or, with `accumulate`, add) R (W + L) C x into `out`.

    With H heads each head has an equal share of the columns. Where x is H times narrower than out, all heads read the same
    columns; where out is H times narrower, all heads are added into the same columns (the transpose of that).
    """
    c, heads = coefficients, coefficients.heads
    if len(c.edge) and not edges.numbered:
        raise ValueError("edges without numbers cannot have weights of their own")
    width = min(x.width, out.width) // (heads if x.width == out.width else 1)
    x_step, out_step = (width if rows.width == width * heads else 0 for rows in (x, out))
    source = (heads, x.flat, x.stride, x_step)
    target: tuple[Any, ...] = (out.flat, out.stride, out_step, out.width, width, accumulate)
    run_lists(edges, edges.ordinary, out.width, threads, _sum_rows, c.edge, c.source, c.row, c.own, *source, *target)
    hubs = edges.hubs
    if hubs is not None:
        none, pieces = c.edge[:0], np.empty((len(hubs.owner), out.width), c.edge.dtype)
        into = (pieces.reshape(-1), out.width, out_step, out.width, width, False)
        run_lists(edges, hubs, out.width, threads, _sum_rows, c.edge, c.source, none, none, *source, *into)
        _combine(hubs.owner, pieces, c.source, c.row, c.own, *source, *target)


@compiled_multiply_add
def _sum_rows(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    neighbours: NDArray[np.int32],
    edges: NDArray[Any],
    edge_weight: NDArray[Any],
    source_scale: NDArray[Any],
    row_scale: NDArray[Any],
    own_weight: NDArray[Any],
    heads: int,
    x: NDArray[Any],
    x_stride: int,
    x_step: int,
    out: NDArray[Any],
    out_stride: int,
    out_step: int,
    out_width: int,
    width: int,
    accumulate: bool,
    start: int,
    stop: int,
) -> None:
    # Unsigned indices: Numba then makes no test for negative ones.
    weighted, scaled = len(edge_weight) > 0, len(source_scale) > 0
    total = np.zeros(out_width, edge_weight.dtype)
    weight = np.ones(_CHUNK, edge_weight.dtype)
    for row in range(start, stop):
        if end[row] - begin[row] > limit:
            continue
        for f in range(out_width):
            total[f] = 0
        k = begin[row]
        while k < end[row]:
            count = min(_CHUNK, end[row] - k)
            for h in range(heads):
                if weighted:
                    for j in range(_U(count)):
                        edge = number_of(edges, _U(k) + j)
                        weight[j] = edge_weight[edge * _U(heads) + _U(h)]
                    if scaled:
                        for j in range(_U(count)):
                            weight[j] *= source_scale[_U(neighbours[_U(k) + j])]
                elif scaled:
                    for j in range(_U(count)):
                        weight[j] = source_scale[_U(neighbours[_U(k) + j])]
                add_scattered(total, h * out_step, x, h * x_step, x_stride, neighbours, k, count, weight, width)
            k += count
        finish_row(row, total, source_scale, row_scale, own_weight, heads, x, x_stride, x_step,
                out, out_stride, out_step, width, accumulate)  # fmt: skip


@compiled_multiply_add
def finish_row(
    row: int,
    total: NDArray[Any],
    source_scale: NDArray[Any],
    row_scale: NDArray[Any],
    own_weight: NDArray[Any],
    heads: int,
    x: NDArray[Any],
    x_stride: int,
    x_step: int,
    out: NDArray[Any],
    out_stride: int,
    out_step: int,
    width: int,
    accumulate: bool,
) -> None:
    """Add the row's own value, scale, and write the row."""
    if (row + 1) * heads <= len(own_weight):
        for h in range(heads):
            w = own_weight[row * heads + h]
            if len(source_scale):
                w *= source_scale[row]
            place, to = _U(row * x_stride + h * x_step), _U(h * out_step)
            for f in range(_U(width)):
                total[to + f] += w * widen(x[place + f])
    scale = row_scale[row] if len(row_scale) else total.dtype.type(1)
    to = _U(row * out_stride)
    if accumulate:
        for f in range(_U(len(total))):
            out[to + f] += scale * total[f]
    else:
        for f in range(_U(len(total))):
            out[to + f] = scale * total[f]


@compiled_multiply_add
def _combine(
    owner: NDArray[np.int64],
    partial: NDArray[Any],
    source_scale: NDArray[Any],
    row_scale: NDArray[Any],
    own_weight: NDArray[Any],
    heads: int,
    x: NDArray[Any],
    x_stride: int,
    x_step: int,
    out: NDArray[Any],
    out_stride: int,
    out_step: int,
    out_width: int,
    width: int,
    accumulate: bool,
) -> None:
    """Sum the pieces of each hub in their order and finish its row."""
    total = np.zeros(out_width, partial.dtype)
    for piece in range(len(owner)):
        for f in range(len(total)):
            total[f] += partial[piece, f]
        if piece + 1 == len(owner) or owner[piece + 1] != owner[piece]:
            finish_row(owner[piece], total, source_scale, row_scale, own_weight, heads, x, x_stride, x_step,
                    out, out_stride, out_step, width, accumulate)  # fmt: skip
            for f in range(len(total)):
                total[f] = 0
