"""Sums over a graph's own lists through a map of its rows, against a slow twin; hubs, threads, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.kernels.adjacency import HUB_EDGES, Adjacency, adjacency
from starling.kernels.mapped import MappedLists, mapped_sum, sum_lists
from starling.kernels.rows import rows_of
from starling.kernels.spmm import Coefficients, weighted_sum
from starling.nn.ops.arrays import rows
from tests.kernels.graphs import adjacencies


def slow_sum(mapped: MappedLists, c: Coefficients, x: NDArray[Any]) -> NDArray[Any]:
    out = np.zeros((mapped.rows, x.shape[1]))
    for i, row in enumerate(mapped.chosen):
        for neighbour in mapped.lists.neighbours[mapped.lists.offsets[row] : mapped.lists.offsets[row + 1]]:
            at = mapped.place[neighbour]
            if 0 <= at < mapped.columns:
                out[i] += x[at] * (c.source[at] if len(c.source) else 1)
        if i < len(c.own):
            out[i] += c.own[i] * x[i] * (c.source[i] if len(c.source) else 1)
    return out * c.row[:, None] if len(c.row) else out


def some(generator: np.random.Generator, edges: Adjacency, columns: int) -> MappedLists:
    """Some rows in any order, and places for some nodes; a few of them beyond the columns."""
    chosen = generator.permutation(edges.rows)[: generator.integers(0, edges.rows + 1)]
    place = generator.integers(-1, columns + 2, edges.columns).astype(np.int32)
    return MappedLists(edges, chosen, place, columns)


@settings(deadline=None, max_examples=60)
@given(
    edges=adjacencies,
    columns=st.integers(0, 9),
    width=st.sampled_from([1, 3, 8, 17]),
    present=st.tuples(*[st.booleans()] * 3),
    accumulate=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_sum_equals_its_slow_twin(
    edges: Adjacency, columns: int, width: int, present: tuple[bool, ...], accumulate: bool, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    mapped = some(generator, edges, columns)
    sizes = (columns, mapped.rows, min(mapped.rows, columns))
    source, row, own = (generator.standard_normal(size if there else 0) for size, there in zip(sizes, present, strict=True))
    c = Coefficients(np.empty(0), source, row, own)
    x, out = generator.standard_normal((columns, width)), generator.standard_normal((mapped.rows, width))
    expected = slow_sum(mapped, c, x) + (out if accumulate else 0)
    sum_lists(mapped, c, rows_of(x), rows_of(out), accumulate=accumulate)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
    assert mapped.entries == sum(edges.offsets[row + 1] - edges.offsets[row] for row in mapped.chosen)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_hubs_and_threads(threads: int) -> None:
    """Row 1 has more neighbours than one thread gets, row 3 more than are looked up at once; every third node is not there."""
    generator = np.random.default_rng(3)
    lengths = np.array([5, 2 * HUB_EDGES + 7, 0, 5000, 40])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    neighbours = generator.integers(0, 300, offsets[-1]).astype(np.int32)
    place = np.where(np.arange(300) % 3, np.arange(300) * 2 // 3, -1).astype(np.int32)
    mapped = MappedLists(adjacency(offsets, neighbours, 300), np.array([4, 1, 2, 3]), place, 200)
    source, row, own = (generator.standard_normal(size) for size in (200, 4, 4))
    c = Coefficients(np.empty(0), source, row, own)
    x, out, alone = generator.standard_normal((200, 12)), np.empty((4, 12)), np.empty((4, 12))
    mapped_sum(mapped, c, rows_of(x), rows_of(out), threads=threads)
    mapped_sum(mapped, c, rows_of(x), rows_of(alone), threads=1)
    np.testing.assert_allclose(out, slow_sum(mapped, c, x), rtol=1e-10)
    assert np.array_equal(out, alone)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_of_other_types(dtype: torch.dtype) -> None:
    """As messages bring them: sums are made in float32 either way, with the bits that a copied list of the same edges gives."""
    generator = np.random.default_rng(5)
    lengths = np.array([40, 0, HUB_EDGES + 1, 3])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    neighbours = generator.integers(0, 60, offsets[-1]).astype(np.int32)
    place = generator.permutation(60).astype(np.int32)
    mapped = MappedLists(adjacency(offsets, neighbours, 60), np.arange(4), place, 60)
    c = Coefficients(np.empty(0, np.float32), *(generator.random(size).astype(np.float32) for size in (60, 4, 4)))
    x = torch.from_numpy(generator.standard_normal((60, 12))).to(dtype)
    out, copied = np.empty((4, 12), np.float32), np.empty((4, 12), np.float32)
    mapped_sum(mapped, c, rows(x), rows_of(out))
    weighted_sum(adjacency(offsets, place[neighbours], 60), c, rows(x), rows_of(copied))
    assert np.array_equal(out, copied)
    np.testing.assert_allclose(out, slow_sum(mapped, c, x.double().numpy()), rtol=1e-4, atol=1e-3)


def test_weights_of_edges_are_refused() -> None:
    mapped = MappedLists(adjacency(np.array([0, 1]), np.array([0], np.int32), 1), np.array([0]), np.array([0], np.int32), 1)
    weighted = Coefficients(np.ones(1), *[np.empty(0)] * 3)
    with pytest.raises(ValueError, match="have no weights"):
        mapped_sum(mapped, weighted, rows_of(np.ones((1, 2))), rows_of(np.ones((1, 2))))
