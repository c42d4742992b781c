"""Rows in memory and rows in a scratch file are the same rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.infer.row_table import RowTable


@pytest.mark.parametrize("memory", [0, 1 << 20])
@given(cuts=st.lists(st.integers(0, 30), max_size=4), index=st.lists(st.integers(0, 29), max_size=40))
def test_rows(memory: int, cuts: list[int], index: list[int]) -> None:
    values = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    table = RowTable(30, 3, memory=memory)
    assert table.on_disk == (memory == 0)
    bounds = sorted({0, 30, *cuts})
    for start, stop in itertools.pairwise(bounds):
        table.write(start, values[start:stop])
    np.testing.assert_array_equal(table.rows(np.array(index, np.int64)), values[index])
    np.testing.assert_array_equal(table.read(7, 19), values[7:19])


def test_no_rows() -> None:
    assert RowTable(0, 5, memory=0).read(0, 0).shape == (0, 5)
