"""Steps of sparse optimisers against loops in plain NumPy, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.keyed import draw_unit, stream_key
from starling.kernels import sparse_steps
from starling.kernels.sparse_steps import adagrad_step, adam_step, fill_uniform, sgd_step


@pytest.fixture(autouse=True)
def many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_steps, "_FEW", 1)


def some(seed: int, rows: int, touched: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    matrix = draw.normal(size=(rows, width)).astype(np.float32)
    return matrix, draw.permutation(rows)[:touched], draw.normal(size=(touched, width)).astype(np.float32)


def test_by_hand() -> None:
    rows, gradient = np.array([[1.0], [2.0]], np.float32), np.array([[4.0]], np.float32)
    sgd_step(rows, np.array([1]), gradient, 0.25)
    assert rows[:, 0].tolist() == [1.0, 1.0]
    squares = np.array([[0.0], [9.0]], np.float32)
    adagrad_step(rows, squares, np.array([1]), gradient, 0.5, 0.0)  # √(9 + 16) = 5, and 1 − 0.5 · 4 / 5
    assert squares[1, 0] == 25.0
    assert rows[1, 0] == pytest.approx(0.6)
    mean, square = np.array([[0.0], [2.0]], np.float32), np.array([[0.0], [4.0]], np.float32)
    rows[1] = 1.0
    adam_step(rows, mean, square, np.array([1]), gradient, 0.1, (0.5, 0.5), 0.0)  # m = 3, v = 10
    assert (mean[1, 0], square[1, 0]) == (3.0, 10.0)
    assert rows[1, 0] == pytest.approx(1 - 0.1 * 3 / math.sqrt(10))
    assert (rows[0, 0], mean[0, 0], square[0, 0]) == (1.0, 0.0, 0.0)


@given(st.integers(0, 9), st.integers(1, 60), st.integers(0, 60), st.integers(0, 5), st.integers(1, 3))
def test_rows_that_are_touched_move_and_no_others(seed: int, rows: int, touched: int, width: int, threads: int) -> None:
    matrix, index, g = some(seed, rows, min(touched, rows), width)
    state = np.abs(some(seed + 1, rows, 0, width)[0])
    mean, square = matrix * 0.5, state.copy()
    plain, adaptive, adam, sums = matrix.copy(), matrix.copy(), matrix.copy(), state.copy()
    sgd_step(plain, index, g, 0.1, threads)
    adagrad_step(adaptive, sums, index, g, 0.1, 1e-10, threads)
    adam_step(adam, mean, square, index, g, 0.1, (0.9, 0.99), 1e-8, threads)
    wanted = matrix.copy()
    wanted[index] -= 0.1 * g
    np.testing.assert_allclose(plain, wanted, rtol=1e-6, atol=1e-6)
    wanted_sums, wanted = state.copy(), matrix.copy()
    wanted_sums[index] += g**2
    wanted[index] -= 0.1 * g / (np.sqrt(wanted_sums[index]) + 1e-10)
    np.testing.assert_allclose(sums, wanted_sums, rtol=1e-6)
    np.testing.assert_allclose(adaptive, wanted, rtol=1e-5, atol=1e-6)
    m, v, wanted = matrix * 0.5, state.copy(), matrix.copy()
    m[index] = 0.9 * m[index] + 0.1 * g
    v[index] = 0.99 * v[index] + 0.01 * g**2
    wanted[index] -= 0.1 * m[index] / (np.sqrt(v[index]) + 1e-8)
    np.testing.assert_allclose(mean, m, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(square, v, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(adam, wanted, rtol=1e-4, atol=1e-5)


def test_first_numbers_depend_on_position_and_column_alone() -> None:
    key, positions = stream_key(3, "embedding"), np.array([7, 0, 4])
    rows = np.empty((3, 2), np.float32)
    fill_uniform(rows, positions, key, 0.5)
    for row, position in enumerate(positions):
        for column in range(2):
            assert rows[row, column] == np.float32((2 * draw_unit(key, position, column) - 1) * 0.5)
    other = np.empty((2, 2), np.float32)
    fill_uniform(other, positions[1:], key, 0.5, 3)
    np.testing.assert_array_equal(other, rows[1:])
