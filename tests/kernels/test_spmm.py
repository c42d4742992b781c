from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.kernels.adjacency import Adjacency, adjacency
from starling.kernels.maximum import neighbour_max, neighbour_max_backward
from starling.kernels.rows import Rows, gather_rows, rows_of, scatter_rows
from starling.kernels.scores import edge_dots
from starling.kernels.spmm import Coefficients, plain_sum, weighted_sum
from tests.kernels.graphs import adjacencies, edge_rows, make


def slow_sum(edges: Adjacency, c: Coefficients, x: NDArray[Any], width: int, shared: str = "") -> NDArray[Any]:
    """R (W + L) C x, one edge at a time."""
    heads = c.heads
    out = np.zeros((edges.rows, width if shared == "out" else heads * width))
    numbers = edges.edges if len(edges.edges) else np.arange(len(edges.neighbours))

    def add(row: int, source: int, weights: NDArray[Any]) -> None:
        for h in range(heads):
            w = weights[h] * (c.source[source] if len(c.source) else 1)
            there = slice(0, width) if shared == "x" else slice(h * width, (h + 1) * width)
            here = slice(0, width) if shared == "out" else slice(h * width, (h + 1) * width)
            out[row, here] += w * x[source, there]

    weight = c.edge.reshape(-1, heads) if len(c.edge) else np.ones((len(numbers), heads))
    for k, row in enumerate(edge_rows(edges)):
        add(row, edges.neighbours[k], weight[numbers[k]])
    for row, own in enumerate(c.own.reshape(-1, heads)):
        add(row, row, own)
    return out * c.row[:, None] if len(c.row) else out


def coefficients(edges: Adjacency, heads: int, present: tuple[bool, ...], seed: int, dtype: Any) -> Coefficients:
    generator = np.random.default_rng(seed)
    sizes = (len(edges.neighbours) * heads, edges.columns, edges.rows, min(edges.rows, edges.columns) * heads)
    made = [generator.standard_normal(size if there else 0).astype(dtype) for size, there in zip(sizes, present, strict=True)]
    return Coefficients(*made, heads=heads)


@settings(deadline=None, max_examples=60)
@given(
    edges=adjacencies,
    width=st.sampled_from([1, 3, 8, 17]),
    heads=st.sampled_from([1, 2, 3]),
    present=st.tuples(*[st.booleans()] * 4),
    shared=st.sampled_from(["", "x", "out"]),
    seed=st.integers(0, 1000),
)
def test_sum_equals_its_slow_twin(
    edges: Adjacency, width: int, heads: int, present: tuple[bool, ...], shared: str, seed: int
) -> None:
    c = coefficients(edges, heads, present, seed, np.float64)
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((edges.columns, width if shared == "x" else width * heads))
    expected = slow_sum(edges, c, x, width, shared)
    out = np.full_like(expected, np.nan)
    weighted_sum(edges, c, rows_of(x), rows_of(out))
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-7)
    weighted_sum(edges, c, rows_of(x), rows_of(out), accumulate=True)
    np.testing.assert_allclose(out, 2 * expected, rtol=1e-9, atol=1e-7)


@settings(deadline=None, max_examples=40)
@given(
    edges=adjacencies,
    heads=st.sampled_from([1, 2]),
    present=st.tuples(*[st.booleans()] * 4),
    seed=st.integers(0, 1000),
    shared=st.booleans(),
)
def test_transposed_sum_is_the_adjoint(
    edges: Adjacency, heads: int, present: tuple[bool, ...], seed: int, shared: bool
) -> None:
    """⟨g, A x⟩ = ⟨A' g, x⟩, and the edge weights' gradient is what changes ⟨g, A x⟩."""
    c = coefficients(edges, heads, (True, *present[1:]), seed, np.float64)
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((edges.columns, 3 if shared else 3 * heads))
    g = generator.standard_normal((edges.rows, 3 * heads))
    out, back = np.empty_like(g), np.empty_like(x)
    weighted_sum(edges, c, rows_of(x), rows_of(out))
    weighted_sum(edges.transposed, c.transposed(), rows_of(g), rows_of(back))
    np.testing.assert_allclose((g * out).sum(), (back * x).sum(), rtol=1e-7, atol=1e-6)
    dots = np.empty((len(edges.neighbours), heads))
    edge_dots(edges, c, rows_of(g), rows_of(x), dots)
    only = np.empty_like(g)
    weighted_sum(edges, Coefficients(c.edge, c.source, c.row, c.own[:0], heads), rows_of(x), rows_of(only))
    np.testing.assert_allclose((dots.reshape(-1) * c.edge).sum(), (g * only).sum(), rtol=1e-7, atol=1e-6)


def test_sum_by_hand() -> None:
    """Row 0 hears from 1 (weight 2) and 2 (weight 3): (2·10 + 3·100) · ½ = 160; row 1 has only its own 10 · ½ · 4 = 20."""
    edges = adjacency(np.array([0, 2, 2]), np.array([1, 2], np.int32), 3)
    x = np.array([[1.0], [10.0], [100.0]], np.float32)
    out = np.empty((2, 1), np.float32)
    none = x[:0, 0]
    c = Coefficients(np.array([2, 3], np.float32), none, np.array([0.5, 0.5], np.float32), np.array([0, 4], np.float32))
    weighted_sum(edges, c, rows_of(x), rows_of(out))
    assert out.tolist() == [[160.0], [20.0]]


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_change_no_bit(threads: int) -> None:
    edges = make(300, 200, 30_000, seed=3, hub=True)
    x = np.random.default_rng(0).standard_normal((200, 24)).astype(np.float32)
    one, many = (np.empty((300, 24), np.float32) for _ in range(2))
    for side, a, source in (("forward", edges, 200), ("backward", edges.transposed, 300)):
        given_rows = np.resize(x, (source, 24))
        one, many = (np.empty((a.rows, 24), np.float32) for _ in range(2))
        weighted_sum(a, plain_sum(np.float32), rows_of(given_rows), rows_of(one), threads=1)
        weighted_sum(a, plain_sum(np.float32), rows_of(given_rows), rows_of(many), threads=threads)
        assert np.array_equal(one, many), side


def test_bfloat16_rows_are_summed_in_float32() -> None:
    edges = make(40, 30, 400, seed=2)
    x = np.random.default_rng(0).standard_normal((30, 20)).astype(np.float32)
    stored = (x.view(np.uint32) >> 16).astype(np.uint16)
    exact = (stored.astype(np.uint32) << 16).view(np.float32)
    out, expected = (np.empty((40, 20), np.float32) for _ in range(2))
    weighted_sum(edges, plain_sum(np.float32), rows_of(stored), rows_of(out))
    weighted_sum(edges, plain_sum(np.float32), rows_of(exact), rows_of(expected))
    assert np.array_equal(out, expected)


def test_half_of_a_wider_matrix_is_read_and_written_in_place() -> None:
    edges = make(9, 9, 50, seed=4)
    wide = np.random.default_rng(1).standard_normal((9, 10))
    out = np.zeros((9, 12))
    weighted_sum(edges, plain_sum(np.float64), Rows(wide.reshape(-1)[5:], 9, 5, 10), Rows(out.reshape(-1)[7:], 9, 5, 12))
    np.testing.assert_allclose(out[:, 7:], slow_sum(edges, plain_sum(np.float64), wide[:, 5:], 5))
    assert not out[:, :7].any()


@settings(deadline=None, max_examples=40)
@given(edges=adjacencies, width=st.sampled_from([1, 5]), seed=st.integers(0, 1000), values=st.sampled_from([3, 10**6]))
def test_max_and_its_gradient(edges: Adjacency, width: int, seed: int, values: int) -> None:
    generator = np.random.default_rng(seed)
    x = generator.integers(-values, values, (edges.columns, width)).astype(np.float64)  # with 3, ties are everywhere
    g = generator.standard_normal((edges.rows, width))
    out, winner = np.empty((edges.rows, width)), np.empty((edges.rows, width), np.int64)
    neighbour_max(edges, rows_of(x), out, winner)
    back, expected = np.empty_like(x), np.zeros_like(x)
    neighbour_max_backward(edges.transposed, winner, rows_of(g), back)
    for row in range(edges.rows):
        near = edges.neighbours[edges.offsets[row] : edges.offsets[row + 1]]
        assert np.array_equal(out[row], x[near].max(0) if len(near) else np.zeros(width))
        for f in range(width):
            if len(near):
                first = int(np.argmax(x[near, f]))
                assert winner[row, f] == edges.offsets[row] + first
                expected[near[first], f] += g[row, f]
    np.testing.assert_allclose(back, expected, atol=1e-9)


@given(count=st.integers(1, 50), width=st.integers(1, 9), seed=st.integers(0, 100))
def test_rows_move(count: int, width: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    source, index = generator.standard_normal((count, width)), generator.permutation(count)
    there, back = np.empty_like(source), np.empty_like(source)
    gather_rows(source, index, there)
    assert np.array_equal(there, source[index])
    scatter_rows(there, index, back)
    assert np.array_equal(back, source)
