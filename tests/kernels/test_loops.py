"""Self-loops in neighbour lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.csr import Csr, csr_from_pairs
from starling.kernels.loops import loop_entries, looped_rows


def test_by_hand() -> None:
    """Lists 0: 1, 0; 1: none; 2: 2, 2; 3: 0 — loops at entries 1 and 2."""
    offsets, neighbours = np.array([0, 2, 2, 4, 5]), np.array([1, 0, 2, 2, 0], np.int32)
    assert loop_entries(offsets, neighbours).tolist() == [1, -1, 2, -1]
    assert looped_rows(Csr(offsets, neighbours, np.arange(5)), 6).tolist() == [True, False, True, False, False, False]


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=40), st.integers(1, 3))
def test_as_a_plain_search(pairs: list[tuple[int, int]], threads: int) -> None:
    lists = csr_from_pairs(np.array(pairs, np.int32).reshape(-1, 2), 8)
    found = loop_entries(lists.offsets, lists.neighbours, threads)
    for row in range(8):
        own = [e for e in range(lists.offsets[row], lists.offsets[row + 1]) if lists.neighbours[e] == row]
        assert found[row] == (own[0] if own else -1)
