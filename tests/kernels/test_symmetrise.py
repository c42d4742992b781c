from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.kernels.symmetrise import reverse_missing, symmetrise
from tests.support.pairs import Edges, edge_lists, tiny_thresholds


@pytest.fixture(autouse=True, scope="module")
def _small_inputs_take_every_path() -> Iterator[None]:
    with tiny_thresholds():
        yield


def missing_one_by_one(pairs: NDArray[Any]) -> list[bool]:
    """The slow twin: each edge claims an unclaimed copy of its reverse."""
    unclaimed = Counter(map(tuple, pairs.tolist()))
    result = []
    for u, v in pairs.tolist():
        result.append(u != v and unclaimed[v, u] == 0)
        unclaimed[v, u] -= unclaimed[v, u] > 0
    return result


def test_by_hand() -> None:
    pairs = np.array([[0, 1], [2, 2], [1, 0], [3, 1], [0, 1]])
    assert reverse_missing(pairs).tolist() == [False, False, False, True, True]
    assert symmetrise(pairs).tolist() == [[0, 1], [2, 2], [1, 0], [3, 1], [1, 3], [0, 1], [1, 0]]


@given(edge_lists(most_nodes=5), st.sampled_from([1, 4]))
def test_missing_reverses_one_by_one(edges: Edges, threads: int) -> None:
    missing = reverse_missing(edges.pairs, threads=threads)
    assert missing.dtype == np.bool_
    assert missing.tolist() == missing_one_by_one(edges.pairs)


@given(edge_lists(most_nodes=8), st.sampled_from([1, 4]))
def test_symmetrised_edges_occur_equally_often_both_ways(edges: Edges, threads: int) -> None:
    both = symmetrise(edges.pairs, threads=threads)
    assert both.dtype == edges.pairs.dtype
    counts = Counter(map(tuple, both.tolist()))
    assert all(counts[v, u] == count for (u, v), count in counts.items())
    assert not reverse_missing(both).any()

    expected = []
    for (u, v), alone in zip(edges.pairs.tolist(), missing_one_by_one(edges.pairs), strict=True):
        expected += [[u, v], [v, u]] if alone else [[u, v]]
    assert both.tolist() == expected


@given(edge_lists())
def test_an_edge_table_follows(edges: Edges) -> None:
    weight = np.arange(len(edges.pairs))
    repeated = np.repeat(weight, 1 + reverse_missing(edges.pairs))
    ends = np.sort(edges.pairs, axis=1)
    np.testing.assert_array_equal(np.sort(symmetrise(edges.pairs), axis=1), ends[repeated])


def test_a_matrix_plus_its_transpose() -> None:
    from scipy.sparse import coo_array

    pairs = np.random.default_rng(6).integers(0, 400, (50_000, 2), dtype=np.int64)
    both = symmetrise(pairs)
    ones = np.ones(len(both), np.int64)
    matrix = coo_array((ones, (both[:, 0], both[:, 1])), shape=(400, 400)).tocsr()
    given_ones = np.ones(len(pairs), np.int64)
    original = coo_array((given_ones, (pairs[:, 0], pairs[:, 1])), shape=(400, 400)).tocsr()
    assert (matrix != original.maximum(original.T)).nnz == 0


def test_nothing_and_ids_of_64_bits() -> None:
    assert symmetrise(np.empty((0, 2), np.int32)).shape == (0, 2)
    far = np.array([[2**40, 2**50], [2**50, 2**40], [2**40, 2**40 + 2**32]])
    assert symmetrise(far)[3:].tolist() == [[2**40 + 2**32, 2**40]]
