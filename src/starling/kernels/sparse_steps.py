"""Steps of sparse optimisers, in place: only the rows that a step has touched move, each by itself, in float32.

A row is named at most once, so threads never meet and results do not depend on their number. `np.divide` does not look for a
zero below as ``/`` does, which would keep loops from working on several numbers at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw_unit
from starling.kernels.parallel import parallel_for

_FEW = 1 << 14
"""Numbers below which waking another thread costs more than it gains."""


def fill_uniform(
    rows: NDArray[np.float32], positions: NDArray[Any], key: np.uint64, bound: float, threads: int | None = None
) -> None:
    """Numbers in ±bound, each drawn from (key, position of its row, column) alone."""
    parallel_for(len(rows), lambda start, stop: _fill_uniform(rows, positions, key, bound, start, stop), _few(rows, threads))


def sgd_step(
    rows: NDArray[np.float32], index: NDArray[Any], gradient: NDArray[np.float32], rate: float, threads: int | None = None
) -> None:
    """w ← w − rate · g."""
    parallel_for(
        len(index), lambda start, stop: _sgd(rows, index, gradient, np.float32(rate), start, stop), _few(gradient, threads)
    )


def adagrad_step(
    rows: NDArray[np.float32],
    squares: NDArray[np.float32],
    index: NDArray[Any],
    gradient: NDArray[np.float32],
    rate: float,
    epsilon: float,
    threads: int | None = None,
) -> None:
    """s ← s + g²; w ← w − rate · g / (√s + ε)."""
    given = np.float32(rate), np.float32(epsilon)
    parallel_for(
        len(index),
        lambda start, stop: _adagrad(rows, squares, index, gradient, *given, start, stop),
        _few(gradient, threads),
    )


def adam_step(
    rows: NDArray[np.float32],
    mean: NDArray[np.float32],
    square: NDArray[np.float32],
    index: NDArray[Any],
    gradient: NDArray[np.float32],
    rate: float,
    betas: tuple[float, float],
    epsilon: float,
    threads: int | None = None,
) -> None:
    """m ← m + (1 − β₁)(g − m); v ← v + (1 − β₂)(g² − v); w ← w − rate · m / (√v + ε).

    `rate` holds the corrections for the number of steps already.
    """
    given = np.float32(rate), np.float32(1 - betas[0]), np.float32(1 - betas[1]), np.float32(epsilon)
    parallel_for(
        len(index),
        lambda start, stop: _adam(rows, mean, square, index, gradient, *given, start, stop),
        _few(gradient, threads),
    )


def _few(values: NDArray[Any], threads: int | None) -> int | None:
    return 1 if values.size < _FEW else threads


@compiled
def _fill_uniform(
    rows: NDArray[np.float32], positions: NDArray[Any], key: np.uint64, bound: float, start: int, stop: int
) -> None:
    for i in range(start, stop):
        for f in range(rows.shape[1]):
            rows[i, f] = (2.0 * draw_unit(key, positions[i], f) - 1.0) * bound


@compiled
def _sgd(
    rows: NDArray[np.float32], index: NDArray[Any], gradient: NDArray[np.float32], rate: np.float32, start: int, stop: int
) -> None:
    for i in range(start, stop):
        row = np.uint64(index[i])
        for f in range(rows.shape[1]):
            rows[row, f] -= rate * gradient[i, f]


@compiled
def _adagrad(
    rows: NDArray[np.float32],
    squares: NDArray[np.float32],
    index: NDArray[Any],
    gradient: NDArray[np.float32],
    rate: np.float32,
    epsilon: np.float32,
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        row = np.uint64(index[i])
        for f in range(rows.shape[1]):
            g = gradient[i, f]
            total = squares[row, f] + g * g
            squares[row, f] = total
            rows[row, f] -= np.divide(rate * g, np.sqrt(total) + epsilon)


@compiled
def _adam(
    rows: NDArray[np.float32],
    mean: NDArray[np.float32],
    square: NDArray[np.float32],
    index: NDArray[Any],
    gradient: NDArray[np.float32],
    rate: np.float32,
    new_mean: np.float32,
    new_square: np.float32,
    epsilon: np.float32,
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        row = np.uint64(index[i])
        for f in range(rows.shape[1]):
            g = gradient[i, f]
            m = mean[row, f] + new_mean * (g - mean[row, f])
            v = square[row, f] + new_square * (g * g - square[row, f])
            mean[row, f] = m
            square[row, f] = v
            rows[row, f] -= np.divide(rate * m, np.sqrt(v) + epsilon)
