"""The largest value among the neighbours, column by column, and who held it.

The winner is kept as an edge number, so that of equal values (and of two edges from the same source) exactly one, the first in
edge order, gets the gradient. A row without neighbours is zero and has no winner (−1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.adjacency import Lists, number_of, run_lists
from starling.kernels.machine import widen
from starling.kernels.rows import Rows

_U = np.uint64


def neighbour_max(edges: Lists, x: Rows, out: NDArray[Any], winner: NDArray[np.int64], threads: int | None = None) -> None:
    """Write the maxima [rows, F] and the numbers of the winning edges [rows, F]."""
    source = (x.flat, x.stride)
    run_lists(edges, edges.ordinary, x.width, threads, _max_rows, *source, out, winner)
    hubs = edges.hubs
    if hubs is not None:
        values, winners = (np.empty((len(hubs.owner), x.width), kind) for kind in (out.dtype, np.int64))
        run_lists(edges, hubs, x.width, threads, _max_rows, *source, values, winners)
        out[hubs.owner] = -np.inf
        _combine(hubs.owner, values, winners, out, winner)


def neighbour_max_backward(
    transposed: Lists, winner: NDArray[np.int64], gradient: Rows, out: NDArray[Any], threads: int | None = None
) -> None:
    """Give each source [columns, F] the gradients of the maxima it won."""
    source = (winner, gradient.flat, gradient.stride)
    run_lists(transposed, transposed.ordinary, 2 * gradient.width, threads, _give_back, *source, out)
    hubs = transposed.hubs
    if hubs is not None:
        pieces = np.empty((len(hubs.owner), gradient.width), out.dtype)
        run_lists(transposed, hubs, 2 * gradient.width, threads, _give_back, *source, pieces)
        out[hubs.owner] = 0
        np.add.at(out, hubs.owner, pieces)


@compiled
def _max_rows(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    neighbours: NDArray[np.int32],
    edges: NDArray[Any],
    x: NDArray[Any],
    stride: int,
    out: NDArray[Any],
    winner: NDArray[np.int64],
    start: int,
    stop: int,
) -> None:
    width = out.shape[1]
    for row in range(start, stop):
        if end[row] - begin[row] > limit:
            continue
        for f in range(width):
            out[row, f] = 0
            winner[row, f] = -1
        for k in range(begin[row], end[row]):
            place, e = _U(neighbours[k]) * _U(stride), np.int64(number_of(edges, k))
            first = k == begin[row]
            for f in range(_U(width)):
                value = widen(x[place + f])
                wins = first or value > out[row, f]
                out[row, f] = value if wins else out[row, f]
                winner[row, f] = e if wins else winner[row, f]


@compiled
def _combine(
    owner: NDArray[np.int64],
    values: NDArray[Any],
    winners: NDArray[np.int64],
    out: NDArray[Any],
    winner: NDArray[np.int64],
) -> None:
    for piece in range(len(owner)):
        row = owner[piece]
        for f in range(out.shape[1]):
            if values[piece, f] > out[row, f]:
                out[row, f] = values[piece, f]
                winner[row, f] = winners[piece, f]


@compiled
def _give_back(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    rows: NDArray[np.int32],
    edges: NDArray[Any],
    winner: NDArray[np.int64],
    gradient: NDArray[Any],
    stride: int,
    out: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    width = out.shape[1]
    for source in range(start, stop):
        if end[source] - begin[source] > limit:
            continue
        for f in range(width):
            out[source, f] = 0
        for k in range(begin[source], end[source]):
            row, edge = _U(rows[k]), np.int64(number_of(edges, k))
            place = row * _U(stride)
            for f in range(_U(width)):
                won = winner[row, f] == edge
                out[source, f] += gradient[place + f] if won else 0
