"""Packing: the largest first, each to the least occupied part."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.partition.packing import pack_in_order


def packed(order: list[int], weight: list[int], parts: int) -> list[int]:
    part = np.full(len(weight), -1, np.int32)
    pack_in_order(np.array(order, np.int64), np.array(weight, np.int64), parts, part)
    return part.tolist()


def test_by_hand() -> None:
    # 7 → part 0, 5 → part 1, 4 → part 1 (9), 3 → part 0 (10), 1 → part 1 (10)
    assert packed([0, 1, 2, 3, 4], [7, 5, 4, 3, 1], 2) == [0, 1, 1, 0, 1]


def test_groups_outside_the_order_are_left_alone() -> None:
    assert packed([2], [9, 9, 9], 2) == [-1, -1, 0]


@given(st.lists(st.integers(0, 1 << 40), max_size=40), st.integers(1, 7))
def test_each_group_goes_where_least_is(weight: list[int], parts: int) -> None:
    held = [0] * parts
    for group, part in enumerate(packed(list(range(len(weight))), weight, parts)):
        assert part == held.index(min(held))
        held[part] += weight[group]
