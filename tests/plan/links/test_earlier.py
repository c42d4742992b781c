"""Leaks: held-out edges that stand in an earlier split too, found wherever they are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.plan.links.earlier import EdgeNames, find_earlier

EDGES = [(0, 1, 0), (1, 0, 1), (2, 3, 0), (3, 2, 2), (4, 5, 1), (4, 5, 2), (6, 7, 2), (6, 7, 2), (8, 9, 0)]
"""Source, destination, split."""


def late_edges(pieces: list[tuple[EdgeNames, NDArray[np.uint8]]]) -> NDArray[np.bool_]:
    earlier = find_earlier(lambda: pieces, lambda values: [values])
    return np.concatenate([earlier.has(names, split) for names, split in pieces])


def test_leaks_by_hand() -> None:
    source, destination, split = np.array(EDGES).T
    late = late_edges([(EdgeNames(source, destination), split.astype(np.uint8))])
    assert np.flatnonzero(late).tolist() == [1, 3, 5]  # the reverse of a training edge, twice; a test edge in validation
    relation = np.array([0, 0, 0, 1, 0, 1, 0, 0, 0])
    assert not late_edges([(EdgeNames(source, destination, relation), split.astype(np.uint8))]).any()
    relation[5] = 0
    late = late_edges([(EdgeNames(source, destination, relation), split.astype(np.uint8))])
    assert np.flatnonzero(late).tolist() == [5]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2)), max_size=40), st.integers(1, 4))
def test_leaks_are_those_of_a_slow_search(edges: list[tuple[int, int, int]], pieces: int) -> None:
    """In however many pieces the edges are."""
    some = np.array_split(np.array(edges, np.int64).reshape(-1, 3), pieces)
    late = late_edges([(EdgeNames(piece[:, 0], piece[:, 1]), piece[:, 2].astype(np.uint8)) for piece in some])
    for i, (s, d, code) in enumerate(edges):
        assert late[i] == any({s, d} == {a, b} and other < code for a, b, other in edges)
