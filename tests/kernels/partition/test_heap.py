"""The heap gives the same order as Python's."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.partition.heap import drop_smallest, replace_smallest


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.lists(st.one_of(st.none(), st.integers(0, 50)), max_size=60))
def test_smallest_comes_first_as_in_heapq(keys: list[int], steps: list[int | None]) -> None:
    heap, size, twin = np.array(sorted(keys), np.int64), len(keys), sorted(keys)
    for step in steps:
        if size == 0:
            break
        assert heap[0] == twin[0]
        if step is None:
            size = drop_smallest(heap, size)
            heapq.heappop(twin)
        else:
            replace_smallest(heap, size, step)
            heapq.heapreplace(twin, step)
    assert sorted(heap[:size].tolist()) == sorted(twin)


def test_by_hand() -> None:
    heap = np.array([1, 4, 2, 9, 5], np.int64)
    replace_smallest(heap, 5, 6)
    assert heap.tolist() == [2, 4, 6, 9, 5]
    assert drop_smallest(heap, 5) == 4
    assert heap[:4].tolist() == [4, 5, 6, 9]
