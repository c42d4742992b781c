"""Rows range by range."""

from __future__ import annotations

import mmap

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.engine.row_ranges import give_back, row_ranges


def test_by_hand() -> None:
    """Rows 0 … 3, 4 … 7 and 8 … 11; those in the middle are not asked for."""
    assert [places.tolist() for places in row_ranges(np.array([9, 1, 8, 3, 1]), 4)] == [[1, 4, 3], [2, 0]]


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 60))
def test_every_row_once_in_ranges(rows: list[int], size: int) -> None:
    index, found = np.array(rows, np.int64), list(row_ranges(np.array(rows, np.int64), size))
    places = np.concatenate([np.empty(0, np.int64), *found])
    assert sorted(places.tolist()) == list(range(len(rows)))
    assert index[places].tolist() == sorted(rows)
    for some in found:
        assert len(some)
        assert len(np.unique(index[some] // size)) == 1


def test_what_was_written_stays() -> None:
    pages = mmap.mmap(-1, mmap.PAGESIZE)
    give_back(pages)  # shared memory of nobody else
    pages[5] = 7
    give_back(pages)
    assert pages[5] == 7
