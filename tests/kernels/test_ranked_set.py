"""The ranked set against a sorted Python set."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.kernels.ranked_set import RankedSet, contains


def test_a_set_worked_out_by_hand() -> None:
    found = RankedSet(200)
    found.add_all(np.array([3, 64, 3, 199, 63], np.int32))
    found.rank()
    assert found.count == 4
    assert found.members().tolist() == [3, 63, 64, 199]
    assert found.ranks(np.array([0, 3, 4, 63, 64, 65, 199, 200])).tolist() == [0, 0, 1, 1, 2, 3, 3, 4]


@settings(deadline=None)
@given(st.integers(1, 300), st.data())
def test_ranks_count_smaller_members(limit: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, limit - 1)))
    found = RankedSet(limit)
    found.add_all(np.array(numbers, np.int64))
    found.rank()
    assert found.members().tolist() == sorted(set(numbers))
    assert found.ranks(np.arange(limit + 1)).tolist() == [sum(m < n for m in set(numbers)) for n in range(limit + 1)]
    assert [bool(contains(found.words, n)) for n in range(limit)] == [n in numbers for n in range(limit)]
