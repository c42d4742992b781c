"""Scores of pairs, Σ over columns of a[s] · w[r] · b[d], and their gradients, without a row for every pair.

A pair names a row of each of three matrices. The gradient of one matrix is a sum over the pairs that name each of its rows, in the
order of the pairs: rows are shared out to threads, pairs never, so the bits do not depend on threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled_dots, compiled_multiply_add
from starling.kernels.csr import csr_from_pairs
from starling.kernels.parallel import parallel_for, worthwhile_threads

_U = np.uint64


def score_triples(
    a: NDArray[Any],
    w: NDArray[Any],
    b: NDArray[Any],
    index: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    threads: int | None = None,
) -> NDArray[Any]:
    """The score of each pair [M]; `index` are the rows of a, w and b that it names."""
    out = np.empty(len(index[0]), a.dtype)
    threads = worthwhile_threads(len(out) * a.shape[1], threads)
    parallel_for(len(out), lambda start, stop: _score(a, w, b, *index, out, start, stop), threads)
    return out


def triple_gradient(
    gradient: NDArray[Any],
    rows: int,
    named: NDArray[np.int64],
    x: NDArray[Any],
    x_index: NDArray[np.int64],
    y: NDArray[Any],
    y_index: NDArray[np.int64],
    threads: int | None = None,
) -> NDArray[Any]:
    """The gradient of the matrix whose rows are `named` [M]: for each of its rows Σ gradient · x[x_index] · y[y_index]."""
    pairs = np.empty((len(named), 2), np.int32)
    pairs[:, 0], pairs[:, 1] = 0, named
    groups = csr_from_pairs(pairs, max(rows, 1), threads=threads)
    out = np.empty((rows, x.shape[1]), gradient.dtype)
    parallel_for(
        rows,
        lambda start, stop: _add_up(groups.offsets, groups.edge, gradient, x, x_index, y, y_index, out, start, stop),
        worthwhile_threads(len(named) * x.shape[1], threads),
        offsets=groups.offsets,
    )
    return out


@compiled_dots
def _score(
    a: NDArray[Any],
    w: NDArray[Any],
    b: NDArray[Any],
    a_index: NDArray[np.int64],
    w_index: NDArray[np.int64],
    b_index: NDArray[np.int64],
    out: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        one, weight, other = a[_U(a_index[i])], w[_U(w_index[i])], b[_U(b_index[i])]
        total = out.dtype.type(0)
        for k in range(len(one)):
            total += one[k] * weight[k] * other[k]
        out[i] = total


@compiled_multiply_add
def _add_up(
    offsets: NDArray[np.int64],
    entry: NDArray[Any],
    gradient: NDArray[Any],
    x: NDArray[Any],
    x_index: NDArray[np.int64],
    y: NDArray[Any],
    y_index: NDArray[np.int64],
    out: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    for row in range(start, stop):
        into = out[row]
        for k in range(len(into)):
            into[k] = 0
        for e in range(offsets[row], offsets[row + 1]):
            i = _U(entry[e])
            factor, one, other = gradient[i], x[_U(x_index[i])], y[_U(y_index[i])]
            for k in range(len(into)):
                into[k] += factor * (one[k] * other[k])
