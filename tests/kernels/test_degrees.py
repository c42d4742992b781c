from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.kernels.degrees import Side, check_nodes, count_degrees
from tests.support.pairs import Edges, edge_lists, tiny_thresholds


@pytest.fixture(autouse=True, scope="module")
def _small_inputs_take_every_path() -> Iterator[None]:
    with tiny_thresholds():
        yield


def test_by_hand() -> None:
    pairs = np.array([[0, 2], [1, 2], [2, 2], [0, 1]])
    assert count_degrees(pairs, 4).tolist() == [0, 1, 3, 0]
    assert count_degrees(pairs, 4, "source").tolist() == [2, 1, 1, 0]


@given(edge_lists(), st.sampled_from(["source", "destination"]), st.sampled_from([1, 4]))
def test_counts_like_bincount(edges: Edges, side: Side, threads: int) -> None:
    counts = count_degrees(edges.pairs, edges.nodes, side, threads=threads)
    expected = np.bincount(edges.pairs[:, ["source", "destination"].index(side)], minlength=edges.nodes)
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(counts, expected)


@given(edge_lists(), st.integers(1, 30), st.sampled_from([1, 4]))
def test_blocks_add_up(edges: Edges, size: int, threads: int) -> None:
    counts = np.zeros(edges.nodes, np.int64)
    for start in range(0, len(edges.pairs), size):
        block = edges.pairs[start : start + size]
        assert count_degrees(block, edges.nodes, into=counts, threads=threads) is counts
    np.testing.assert_array_equal(counts, count_degrees(edges.pairs, edges.nodes))


def test_no_nodes_no_edges() -> None:
    assert count_degrees(np.empty((0, 2), np.int32), 0).tolist() == []
    assert count_degrees(np.empty((0, 2), np.int32), 3).tolist() == [0, 0, 0]


def test_counts_of_another_graph_are_refused() -> None:
    with pytest.raises(ValueError, match="counts of 3 nodes given for a graph of 4"):
        count_degrees(np.array([[0, 1]]), 4, into=np.zeros(3, np.int64))


@pytest.mark.parametrize("wrong", [-1, 5, 2**40])
def test_a_node_that_is_not_there(wrong: int) -> None:
    pairs = np.array([[0, 1], [1, wrong], [wrong, 0]])
    with pytest.raises(InputError, match=rf"\[0, 5\), got {wrong} at position 1\."):
        count_degrees(pairs, 5)


@pytest.mark.parametrize("threads", [1, 4])
def test_the_first_wrong_number_is_named_whatever_the_threads(threads: int) -> None:
    numbers = np.zeros(1000, np.int64)
    numbers[[371, 372, 500, 999]] = 7
    for _ in range(20):
        with pytest.raises(InputError, match="got 7 at position 1,371"):
            check_nodes(numbers, 7, threads, before=1000)
