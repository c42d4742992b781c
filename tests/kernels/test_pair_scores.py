"""Scores of pairs and their gradients: by hand, and against plain NumPy, for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.pair_scores import score_triples, triple_gradient


def test_by_hand() -> None:
    a, w = np.array([[1.0, 2.0], [0.0, 3.0]], np.float32), np.array([[2.0, 1.0]], np.float32)
    index = (np.array([0, 1, 0]), np.zeros(3, np.int64), np.array([1, 1, 0]))
    assert score_triples(a, w, a, index).tolist() == [6.0, 9.0, 2 + 4]
    gradient = np.array([1.0, 10.0, 100.0], np.float32)
    # row 0 is the source of the first and third pair: 1 · w · a[1] + 100 · w · a[0]
    into = triple_gradient(gradient, 2, index[0], w, index[1], a, index[2])
    assert into.tolist() == [[0 + 200, 3 + 200], [0, 30]]


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 60), st.integers(1, 7), st.integers(0, 2**20))
def test_against_numpy(rows: int, relations: int, pairs: int, width: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    a, w, b = (draw.normal(size=(n, width)) for n in (rows, relations, rows))
    s, r, d = (draw.integers(0, n, pairs) for n in (rows, relations, rows))
    np.testing.assert_allclose(score_triples(a, w, b, (s, r, d)), (a[s] * w[r] * b[d]).sum(1), rtol=1e-9, atol=1e-12)
    gradient = draw.normal(size=pairs)
    expected = np.zeros((rows, width))
    np.add.at(expected, s, gradient[:, None] * w[r] * b[d])
    np.testing.assert_allclose(triple_gradient(gradient, rows, s, w, r, b, d), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit(threads: int) -> None:
    draw = np.random.default_rng(0)
    a, w = draw.normal(size=(300, 16)).astype(np.float32), draw.normal(size=(5, 16)).astype(np.float32)
    s, r, d = (draw.integers(0, n, 20000) for n in (300, 5, 300))
    gradient = draw.normal(size=20000).astype(np.float32)
    np.testing.assert_array_equal(score_triples(a, w, a, (s, r, d), threads), score_triples(a, w, a, (s, r, d), 1))
    one = triple_gradient(gradient, 300, s, w, r, a, d, 1)
    np.testing.assert_array_equal(triple_gradient(gradient, 300, s, w, r, a, d, threads), one)
