"""Edges by who owns their source, against NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.engine.hybrid.layers.split_edges import split_edges
from starling.engine.hybrid.messages.traffic import make_traffic

NONE = np.empty(0, np.int64)


def test_a_row_that_hears_from_everybody() -> None:
    """Two own rows; row 2 is worker 1's, rows 3 and 4 worker 2's. Row 0 hears 4, 1, 2, 1; row 1 hears 3."""
    traffic = make_traffic(2, [NONE] * 3, [0, 1, 2])
    split = split_edges(np.array([0, 4, 5]), np.array([4, 1, 2, 1, 3], np.int32), traffic)
    assert (split.inner.offsets.tolist(), split.inner.neighbours.tolist(), split.inner.edges.tolist()) == (
        [0, 2, 2],
        [1, 1],
        [1, 3],
    )
    assert list(split.peers) == [1, 2]
    one, two = split.peers[1], split.peers[2]
    assert (one.rows.tolist(), one.forward.neighbours.tolist(), one.forward.edges.tolist()) == ([0], [0], [2])
    assert (two.rows.tolist(), two.forward.offsets.tolist(), two.forward.neighbours.tolist()) == ([0, 1], [0, 1, 2], [1, 0])
    assert (two.backward.offsets.tolist(), two.backward.neighbours.tolist(), two.backward.edges.tolist()) == (
        [0, 1, 2],
        [1, 0],
        [4, 0],
    )
    assert not {"transposed", "transposed_unnumbered"} & set(two.forward.__dict__)  # not kept a second time


@st.composite
def layers(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int, list[int]]:
    owned, mirrors = draw(st.integers(1, 5)), draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    rows = owned + sum(mirrors)
    lists = draw(st.lists(st.lists(st.integers(0, rows - 1), max_size=6), min_size=1, max_size=owned))
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    return offsets, np.array([c for one in lists for c in one], np.int32), owned, mirrors


@given(layers())
def test_every_entry_goes_to_its_owner(layer: tuple[np.ndarray, np.ndarray, int, list[int]]) -> None:
    offsets, neighbours, owned, mirrors = layer
    traffic = make_traffic(owned, [NONE] * len(mirrors), mirrors)
    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    split = split_edges(offsets, neighbours, traffic)

    def entries(low: int, high: int) -> np.ndarray:
        return np.flatnonzero((neighbours >= low) & (neighbours < high))

    mine = entries(0, owned)
    assert np.array_equal(split.inner.edges, mine)
    assert np.array_equal(split.inner.neighbours, neighbours[mine])
    assert np.array_equal(np.diff(split.inner.offsets), np.bincount(row[mine], minlength=len(offsets) - 1))
    for worker in range(len(mirrors)):
        where = traffic.mirrors_of(worker)
        theirs = entries(where.start, where.stop)
        assert (worker in split.peers) == (len(theirs) > 0)
        if len(theirs):
            found = split.peers[worker]
            assert np.array_equal(found.rows, np.unique(row[theirs]))
            assert np.array_equal(found.forward.edges, theirs)
            assert np.array_equal(found.forward.neighbours, neighbours[theirs] - where.start)
            assert np.array_equal(np.repeat(found.rows, np.diff(found.forward.offsets)), row[theirs])
            order = np.argsort(neighbours[theirs], kind="stable")
            assert np.array_equal(found.backward.edges, theirs[order])
            assert np.array_equal(found.backward.neighbours, row[theirs][order])
            assert found.backward.columns == len(offsets) - 1


@given(layers(), st.integers(0, 5), st.booleans())
def test_a_cut_gives_the_split_of_either_half(
    layer: tuple[np.ndarray, np.ndarray, int, list[int]], row: int, numbered: bool
) -> None:
    offsets, neighbours, owned, mirrors = layer
    traffic, row = make_traffic(owned, [NONE] * len(mirrors), mirrors), min(row, len(offsets) - 1)
    entry = offsets[row]
    halves = split_edges(offsets, neighbours, traffic, numbered=numbered).cut(row)
    lists = (offsets[: row + 1], neighbours[:entry]), (offsets[row:] - entry, neighbours[entry:])
    for found, (ends, columns), first in zip(halves, lists, (0, entry), strict=True):
        expected = split_edges(ends, columns, traffic, numbered=numbered)
        assert found.peers.keys() == expected.peers.keys()
        pairs = [(found.inner, expected.inner)]
        for peer, edges in expected.peers.items():
            assert np.array_equal(found.peers[peer].rows, edges.rows)
            assert found.peers[peer].destinations == edges.destinations
            pairs.append((found.peers[peer].forward, edges.forward))
        for mine, theirs in pairs:
            assert np.array_equal(mine.offsets, theirs.offsets)
            assert np.array_equal(mine.neighbours, theirs.neighbours)
            assert np.array_equal(mine.edges, theirs.edges + first if numbered else theirs.edges)
            assert mine.columns == theirs.columns
