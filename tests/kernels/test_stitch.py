"""Grouping ids by range and stitching lists, against plain Python and by hand."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.sampling import Taken
from starling.kernels.stitch import Piece, group_by_range, stitch


def test_groups_by_hand() -> None:
    """Ranges 0–2, nothing, 3–9."""
    grouped = group_by_range(np.array([5, 0, 9, 2, 3], np.int32), np.array([0, 3, 3, 10]))
    assert grouped.order.tolist() == [1, 3, 0, 2, 4]
    assert grouped.bounds.tolist() == [0, 2, 2, 5]
    assert grouped.of(1, 3).tolist() == [0, 2, 4]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6), st.data())
def test_groups_are_those_of_a_slow_search(sizes: list[int], data: st.DataObject) -> None:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    ids = data.draw(st.lists(st.integers(0, int(offsets[-1]) - 1), max_size=30) if offsets[-1] else st.just([]))
    grouped = group_by_range(np.array(ids, np.int64), offsets)
    for number, (first, last) in enumerate(itertools.pairwise(offsets)):
        assert grouped.of(number, number + 1).tolist() == [i for i, node in enumerate(ids) if first <= node < last]


def test_lists_by_hand() -> None:
    """Rows 0 and 2 come from one place, where neighbour 1 is called 71; row 1 from another, as it is."""
    one = Taken(np.array([0, 2, 3]), np.array([0, 1, 0]), np.array([4, 5, 6]), row_scale=np.array([1.5, 2], np.float32))
    other = Taken(np.array([0, 1]), np.array([9]), np.array([3]), row_scale=np.array([3], np.float32))
    pieces = [Piece(np.array([0, 2]), one, np.array([70, 71]), 100), Piece(np.array([1]), other)]
    whole = stitch(3, pieces, np.int32, entries=True)
    assert whole.offsets.tolist() == [0, 2, 3, 4]
    assert whole.neighbours.tolist() == [70, 71, 9, 70]
    assert whole.neighbours.dtype == np.int32
    assert whole.entry.tolist() == [104, 105, 3, 106]
    assert whole.row_scale is not None
    assert whole.row_scale.tolist() == [1.5, 3, 2]
    assert whole.edge_scale is None
    assert len(stitch(3, pieces, np.int32, entries=False).entry) == 0


@given(st.lists(st.lists(st.integers(0, 50), max_size=4), max_size=12), st.integers(1, 3), st.randoms())
def test_stitching_undoes_taking_apart(lists: list[list[int]], groups: int, random: np.random.Generator) -> None:
    """Lists dealt to any groups come back in their order, scales of edges beside them; one group has no scales."""
    of = [random.randrange(groups) for _ in lists]  # type: ignore[attr-defined]
    pieces, scales = [], {}
    for group in range(groups):
        places = np.array([i for i, g in enumerate(of) if g == group], np.int64)
        mine = [lists[i] for i in places]
        neighbours = np.array([node for row in mine for node in row], np.int64)
        scale = None if group == 0 else (neighbours + 0.5).astype(np.float32)
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in mine])]).astype(np.int64)
        pieces.append(Piece(places, Taken(offsets, neighbours, neighbours * 2, None, scale)))
        scales |= {i: [1.0 if group == 0 else node + 0.5 for node in lists[i]] for i in places}
    whole = stitch(len(lists), pieces, np.int64, entries=True)
    for i, row in enumerate(lists):
        mine = slice(whole.offsets[i], whole.offsets[i + 1])
        assert whole.neighbours[mine].tolist() == row
        assert whole.entry[mine].tolist() == [2 * node for node in row]
        if whole.edge_scale is not None:
            assert whole.edge_scale[mine].tolist() == scales[i]
