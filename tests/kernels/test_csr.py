from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.kernels.csr import Csr, csr_from_pairs, index_type, transpose
from starling.kernels.degrees import Side
from tests.support.data import real_graph
from tests.support.pairs import Edges, edge_lists, tiny_thresholds


@pytest.fixture(autouse=True, scope="module")
def _small_inputs_take_every_path() -> Iterator[None]:
    with tiny_thresholds():
        yield


def grouped(keys: list[int], values: list[int], rows: int) -> tuple[list[int], list[int], list[int]]:
    """The slow twin: append every value to the list of its row."""
    lists: list[list[tuple[int, int]]] = [[] for _ in range(rows)]
    for position, (key, value) in enumerate(zip(keys, values, strict=True)):
        lists[key].append((value, position))
    offsets = [0]
    for entries in lists:
        offsets.append(offsets[-1] + len(entries))
    flat = [entry for entries in lists for entry in entries]
    return offsets, [value for value, _ in flat], [position for _, position in flat]


def lists_of(csr: Csr) -> tuple[list[int], list[int], list[int]]:
    return csr.offsets.tolist(), csr.neighbours.tolist(), csr.edge.tolist()


def test_by_hand() -> None:
    pairs = np.array([[3, 1], [0, 2], [2, 1], [3, 1], [1, 1]])
    csr = csr_from_pairs(pairs, 4)
    assert csr.offsets.tolist() == [0, 0, 4, 5, 5]
    assert csr.neighbours.tolist() == [3, 2, 3, 1, 0]
    assert csr.edge.tolist() == [0, 2, 3, 4, 1]
    assert csr.rows == 4
    out = csr_from_pairs(pairs, 4, by="source")
    assert lists_of(out) == ([0, 1, 2, 3, 5], [2, 1, 1, 1, 1], [1, 4, 2, 0, 3])


def test_transpose_by_hand() -> None:
    # rows: 0 -> [2, 0], 1 -> [], 2 -> [2]
    csr = Csr(np.array([0, 2, 2, 3]), np.array([2, 0, 2], np.int32), np.array([5, 6, 7], np.int32))
    assert lists_of(transpose(csr, 4)) == ([0, 1, 1, 3, 3], [0, 0, 2], [1, 0, 2])


@given(edge_lists(), st.sampled_from(["source", "destination"]), st.sampled_from([1, 4]))
def test_csr_is_the_stable_grouping(edges: Edges, by: Side, threads: int) -> None:
    csr = csr_from_pairs(edges.pairs, edges.nodes, by, threads=threads)
    source, destination = edges.pairs.T.tolist()
    key, value = (source, destination) if by == "source" else (destination, source)
    assert lists_of(csr) == grouped(key, value, edges.nodes)
    assert (csr.offsets.dtype, csr.neighbours.dtype, csr.edge.dtype) == (np.int64, np.int32, np.int32)


@given(edge_lists(), st.integers(0, 5), st.sampled_from([1, 4]))
def test_transpose_is_the_stable_grouping_by_column(edges: Edges, spare: int, threads: int) -> None:
    csr = csr_from_pairs(edges.pairs, edges.nodes)
    turned = transpose(csr, edges.nodes + spare, threads=threads)
    row = np.repeat(np.arange(edges.nodes), np.diff(csr.offsets)).tolist()
    assert lists_of(turned) == grouped(csr.neighbours.tolist(), row, edges.nodes + spare)


@given(edge_lists())
def test_transposing_twice_sorts_the_lists(edges: Edges) -> None:
    csr = csr_from_pairs(edges.pairs, edges.nodes)
    again = transpose(transpose(csr, edges.nodes), edges.nodes)
    np.testing.assert_array_equal(again.offsets, csr.offsets)
    for start, stop in zip(csr.offsets[:-1], csr.offsets[1:], strict=True):
        assert again.neighbours[start:stop].tolist() == sorted(csr.neighbours[start:stop].tolist())


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("kind", ["even", "hub", "loops", "few nodes"])
def test_many_edges_as_scipy_and_argsort_have_them(kind: str, threads: int) -> None:
    from scipy.sparse import csr_array

    rng = np.random.default_rng(1)
    nodes, edges = 3_000, 200_000
    pairs = rng.integers(0, nodes, (edges, 2), dtype=np.int32)
    if kind == "hub":
        pairs[:, 1] = 7
    elif kind == "loops":
        pairs[:, 1] = pairs[:, 0]
    elif kind == "few nodes":
        pairs %= 3
    csr = csr_from_pairs(pairs, nodes, threads=threads)
    order = np.argsort(pairs[:, 1], kind="stable")
    np.testing.assert_array_equal(csr.edge, order)
    np.testing.assert_array_equal(csr.neighbours, pairs[order, 0])
    np.testing.assert_array_equal(np.diff(csr.offsets), np.bincount(pairs[:, 1], minlength=nodes))

    turned = transpose(csr, nodes, threads=threads)
    twin = csr_array((np.arange(edges) + 1, csr.neighbours, csr.offsets), shape=(nodes, nodes)).tocsc()
    np.testing.assert_array_equal(turned.offsets, twin.indptr)
    np.testing.assert_array_equal(turned.neighbours, twin.indices)
    np.testing.assert_array_equal(turned.edge, twin.data - 1)


def test_a_real_graph_by_both_ends_is_its_own_transpose() -> None:
    with np.load(real_graph("cora")) as data:
        pairs: NDArray[Any] = np.ascontiguousarray(data["edge_index"].T)
        nodes = int(data["num_nodes"]) if "num_nodes" in data else int(pairs.max()) + 1
    turned = transpose(csr_from_pairs(pairs, nodes, "source"), nodes)
    by_destination = csr_from_pairs(pairs, nodes, "destination")
    np.testing.assert_array_equal(turned.offsets, by_destination.offsets)
    for start, stop in zip(turned.offsets[:-1], turned.offsets[1:], strict=True):
        assert sorted(by_destination.neighbours[start:stop]) == turned.neighbours[start:stop].tolist()


def test_nothing_at_all() -> None:
    empty = csr_from_pairs(np.empty((0, 2), np.int64), 0)
    assert lists_of(empty) == ([0], [], [])
    assert lists_of(transpose(empty, 2)) == ([0, 0, 0], [], [])
    assert lists_of(csr_from_pairs(np.empty((0, 2), np.int64), 2)) == ([0, 0, 0], [], [])


def test_one_node_with_loops() -> None:
    assert lists_of(csr_from_pairs(np.zeros((3, 2), np.int32), 1)) == ([0, 3], [0, 0, 0], [0, 1, 2])


@pytest.mark.parametrize(("pair", "by"), [((0, 4), "source"), ((4, 0), "source"), ((-1, 0), "destination")])
def test_a_node_that_is_not_there(pair: tuple[int, int], by: Side) -> None:
    with pytest.raises(InputError, match=r"Expected node numbers in \[0, 4\), got (4|-1) at position 1\."):
        csr_from_pairs(np.array([[0, 1], pair]), 4, by)


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"\[0, 1\), got 1 at position 0"):
        transpose(csr_from_pairs(np.array([[1, 0]]), 2), 1)


def test_index_type_changes_at_two_to_the_31() -> None:
    assert index_type(0) is np.int32
    assert index_type(2**31) is np.int32  # the largest number is 2**31 - 1
    assert index_type(2**31 + 1) is np.int64
