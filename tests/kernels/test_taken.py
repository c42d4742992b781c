"""Entries taken out of a graph's lists, read through a map: by hand, and against a copy of the same edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.kernels.adjacency import HUB_EDGES, Adjacency, Lists, adjacency
from starling.kernels.rows import rows_of
from starling.kernels.spmm import Coefficients, plain_sum, weighted_sum
from starling.kernels.taken import TakenLists
from tests.kernels.graphs import adjacencies, make
from tests.kernels.test_mapped import everything

NONE = np.empty(0)


def dense(lists: Lists, weight: np.ndarray) -> np.ndarray:
    """The sum over lists as a matrix, with a weight an edge, or none."""
    out = np.empty((lists.rows, lists.columns))
    weighted_sum(lists, Coefficients(weight, NONE, NONE, NONE), rows_of(np.eye(lists.columns)), rows_of(out))
    return out


def by_hand() -> TakenLists:
    """Nodes 5, 2 and 0 of a graph are rows 0, 1 and 2; row 0 takes entries 6 and 4, row 1 nothing, row 2 entry 1 twice.

    The graph's entries name the nodes 2, 5, 0, 0, 5, 2, 0: row 0 hears from nodes 0 and 5, row 2 from node 5 twice.
    """
    neighbours, place = np.array([2, 5, 0, 0, 5, 2, 0], np.int32), np.array([2, -1, 1, -1, -1, 0], np.int32)
    scales = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    return TakenLists(np.array([0, 2, 2, 4]), np.array([6, 4, 1, 1], np.int32), neighbours, place, 3, scales)


def test_a_layer_worked_out_by_hand() -> None:
    lists = by_hand()
    assert (lists.rows, lists.entries, lists.columns, lists.numbered) == (3, 4, 3, True)
    assert lists.neighbours_at(slice(None)).tolist() == [2, 0, 0, 0]
    assert lists.neighbours_at(np.array([3, 0])).tolist() == [0, 2]
    assert dense(lists, NONE).tolist() == [[1, 0, 1], [0, 0, 0], [2, 0, 0]]
    weight = np.array([1.0, 10.0, 100.0, 1000.0])
    assert dense(lists, weight).tolist() == [[10, 0, 1], [0, 0, 0], [1100, 0, 0]]
    assert lists.transposed.offsets.tolist() == [0, 3, 3, 4]
    assert lists.transposed.neighbours.tolist() == [0, 2, 2, 0]
    assert lists.transposed.edges.tolist() == [1, 2, 3, 0]


def test_some_rows_and_columns_by_hand() -> None:
    """Rows 2 and 0 numbered anew; then of all rows what they hear from the last two columns."""
    lists = by_hand()
    some = lists.excerpt(np.array([2, 0]), np.array([2, 0]))
    assert some.neighbours_at(slice(None)).tolist() == [1, 1, 0, 1]
    assert some.taken_from.tolist() == [1, 1, 6, 4]
    assert some.scale is not None
    assert some.scale.tolist() == [3, 4, 1, 2]
    assert dense(some, np.array([1.0, 10.0, 100.0, 1000.0])).tolist() == [[0, 11], [100, 1000]]
    assert some.transposed.edges.tolist() == [2, 0, 1, 3]
    late = lists.from_columns(1, 3, numbered=True)
    assert dense(late, np.array([1.0, 10.0, 100.0, 1000.0])).tolist() == [[0, 1], [0, 0], [0, 0]]
    assert late.transposed.offsets.tolist() == [0, 0, 1]
    assert (late.transposed.neighbours.tolist(), late.transposed.edges.tolist()) == ([0], [0])


def sampled(edges: Adjacency, seed: int) -> tuple[TakenLists, Adjacency]:
    """A few entries of some rows' lists, in any order and some of them twice, and a copy of these edges.

    Sources are the destinations, then all others that they hear from, and a few that they do not.
    """
    generator = np.random.default_rng(seed)
    size = max(edges.rows, edges.columns)
    chosen = generator.permutation(edges.rows)[: max(edges.rows - 1, 1)]
    lists = [np.arange(edges.offsets[row], edges.offsets[row + 1]) for row in chosen]
    taken = [generator.choice(entries, generator.integers(0, len(entries) + 1)) for entries in lists]
    entry = np.concatenate(taken).astype(generator.choice([np.int32, np.int64]))  # type: ignore[arg-type]
    heard = edges.neighbours[entry]
    others = np.setdiff1d(np.union1d(heard, generator.integers(0, size, 3)), chosen)
    sources = np.concatenate([chosen, generator.permutation(others)])
    place = np.full(size, -1, np.int32)
    place[sources] = np.arange(len(sources))
    offsets = np.concatenate([[0], np.cumsum([len(entries) for entries in taken])])
    return TakenLists(offsets, entry, edges.neighbours, place, len(sources)), adjacency(offsets, place[heard], len(sources))


@settings(deadline=None, max_examples=40)
@given(edges=adjacencies, seed=st.integers(0, 1000))
def test_every_operator_gives_the_bits_that_a_copy_gives(edges: Adjacency, seed: int) -> None:
    taken, copied = sampled(edges, seed)
    assert (taken.entries, taken.rows) == (copied.entries, copied.rows)
    for ours, theirs in zip(everything(taken), everything(copied), strict=True):
        np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_hubs_and_threads(threads: int) -> None:
    """A row of which more is taken than one thread gets: pieces are those of a copy."""
    taken, copied = sampled(make(9, 300, 5 * HUB_EDGES, 1, hub=True), 2)
    assert taken.hubs is not None
    generator = np.random.default_rng(0)
    x, out, expected = generator.random((taken.columns, 5)), np.empty((taken.rows, 5)), np.empty((taken.rows, 5))
    weighted_sum(taken, plain_sum(np.float64), rows_of(x), rows_of(out), threads=threads)
    weighted_sum(copied, plain_sum(np.float64), rows_of(x), rows_of(expected), threads=1)
    np.testing.assert_array_equal(out, expected)


@settings(deadline=None, max_examples=60)
@given(edges=adjacencies, seed=st.integers(0, 1000))
def test_pieces_are_parts_of_the_whole(edges: Adjacency, seed: int) -> None:
    """Rows, columns and both, there and back, with weights by the edges' numbers in the whole and without."""
    taken, copied = sampled(edges, seed)
    generator = np.random.default_rng(seed)
    rows = generator.permutation(taken.rows)[: generator.integers(0, taken.rows + 1)]
    top, bottom = np.sort(generator.integers(0, taken.rows + 1, 2)).tolist()
    first, last = np.sort(generator.integers(0, taken.columns + 1, 2)).tolist()
    for weight in (NONE, generator.permutation(taken.entries) + 1.0):
        numbered = len(weight) > 0
        whole = dense(copied, weight)
        pieces = [
            (taken, whole),
            (taken.of_rows(rows), whole[rows]),
            (taken.some_rows(top, bottom), whole[top:bottom]),
            (taken.from_columns(first, last, numbered=numbered), whole[:, first:last]),
            (taken.of_rows(rows).from_columns(first, last, numbered=numbered), whole[rows, first:last]),
            (taken.from_columns(first, last, numbered=numbered).some_rows(top, bottom), whole[top:bottom, first:last]),
        ]
        for lists, expected in pieces:
            np.testing.assert_array_equal(dense(lists, weight), expected)
            np.testing.assert_array_equal(dense(lists.turned_for(weight), weight).T, expected)
            np.testing.assert_array_equal(dense(lists.transposed, weight).T, expected)


def test_an_index_with_numbers_serves_sums_without() -> None:
    """One is made of what comes first, and one of numbers only where they are read."""
    lists = by_hand()
    plain = lists.turned_for(NONE)
    assert not plain.numbered
    assert lists.turned_for(np.ones(4)).numbered
    lists = by_hand()
    assert lists.turned_for(np.ones(4)) is lists.turned_for(NONE)


@settings(deadline=None, max_examples=40)
@given(edges=adjacencies, seed=st.integers(0, 1000))
def test_excerpts_of_excerpts(edges: Adjacency, seed: int) -> None:
    """Some rows of a layer, and some of those, are what a copy of their edges is, to the bit."""
    taken, copied = sampled(edges, seed)
    entries = taken.taken_from
    for step in (2, 3):
        rows = np.arange(step % 2, copied.rows, step)
        numbers = np.concatenate([np.arange(copied.offsets[row], copied.offsets[row + 1]) for row in rows] or [np.arange(0)])
        heard, entries = copied.neighbours[numbers], entries[numbers]
        sources = np.concatenate([rows, np.setdiff1d(heard, rows)])
        number = np.full(copied.columns, -1, np.int32)
        number[sources] = np.arange(len(sources))
        ends = np.concatenate([[0], np.cumsum(np.diff(copied.offsets)[rows])])
        taken, copied = taken.excerpt(rows, sources), adjacency(ends, number[heard], len(sources))
        np.testing.assert_array_equal(taken.taken_from, entries)
        np.testing.assert_array_equal(taken.neighbours_at(slice(None)), copied.neighbours)
        for ours, theirs in zip(everything(taken), everything(copied), strict=True):
            np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())
