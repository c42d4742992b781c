"""Where rows are cut into blocks, by hand and in general."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.engine.hybrid.computing.row_blocks import cut_blocks, touched


@pytest.mark.parametrize(
    ("waits", "bounds"),
    [
        ("", [0]),
        ("...", [0, 3]),  # one stretch
        ("....##", [0, 4, 6]),  # inner rows, then waiting ones, fewer than make a block by right
        ("....####", [0, 4, 8]),
        ("......##", [0, 3, 6, 8]),  # a long stretch is halved
        ("........##....", [0, 4, 8, 10, 14]),
        ("#.#.##.", [0, 3, 7]),  # no stretch: blocks of at most five
        ("#.#....#.", [0, 3, 7, 9]),  # one in the middle
    ],
)
def test_by_hand(waits: str, bounds: list[int]) -> None:
    """Blocks of at most five rows; stretches of at least three have blocks of their own."""
    assert cut_blocks(np.array([row == "#" for row in waits], np.bool_), most=5, least=3).tolist() == bounds


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 9), st.integers(1, 9))
def test_blocks_cover_all_rows_and_long_stretches_are_not_mixed(rows: list[bool], most: int, least: int) -> None:
    bounds = cut_blocks(np.array(rows, np.bool_), most=most, least=least).tolist()
    assert (bounds[0], bounds[-1]) == (0, len(rows))
    assert all(0 < high - low <= most for low, high in itertools.pairwise(bounds))
    place = 0
    for _, stretch in itertools.groupby(rows):
        first, place = place, place + len(list(stretch))
        if place - first >= least:
            assert {first, place} <= set(bounds)


@pytest.mark.parametrize(("rows", "expected"), [([], [0, 0, 0]), ([5, 0], [1, 0, 1]), ([2, 3, 4], [0, 1, 1])])
def test_blocks_that_rows_are_in(rows: list[int], expected: list[int]) -> None:
    assert touched(np.array(rows, np.int64), np.array([0, 2, 4, 6])).tolist() == [bool(one) for one in expected]
