from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.relation_totals import relation_totals
from tests.support.pairs import tiny_thresholds

NONE = np.empty(0, np.float32)


def test_by_hand() -> None:
    """Row 0 hears by relations 1, 0, 1; row 1 nothing; row 2 by relation 1: three pairs."""
    offsets, kinds = np.array([0, 3, 3, 4]), np.array([1, 0, 1, 1])
    totals, pairs = relation_totals(offsets, kinds, 2, NONE)
    assert totals.tolist() == [2, 1, 2, 1]
    assert pairs == 3
    weighted, pairs = relation_totals(offsets, kinds, 2, np.array([0.5, 2, 3, 4], np.float32))
    assert weighted.tolist() == [3.5, 2, 3.5, 4]
    assert pairs == 3


@given(st.lists(st.lists(st.integers(0, 3), max_size=9), max_size=12), st.sampled_from([1, 4]))
def test_like_counting_pairs(rows: list[list[int]], threads: int) -> None:
    offsets = np.cumsum([0, *(len(row) for row in rows)])
    kinds = np.array([kind for row in rows for kind in row], np.int32)
    with tiny_thresholds():
        totals, pairs = relation_totals(offsets, kinds, 4, NONE, threads)
    assert totals.tolist() == [row.count(kind) for row in rows for kind in row]
    assert pairs == sum(len(set(row)) for row in rows)


@pytest.mark.parametrize("rows", [0, 3])
def test_no_edges(rows: int) -> None:
    totals, pairs = relation_totals(np.zeros(rows + 1, np.int64), np.empty(0, np.int64), 5, NONE)
    assert (len(totals), pairs) == (0, 0)
