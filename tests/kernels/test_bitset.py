from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.bitset import (
    add_equal,
    add_new,
    empty_bits,
    first_missing,
    full_bits,
    ones_before,
    ranks,
    size,
)

COUNT = 200
positions = st.lists(st.integers(0, COUNT - 1), max_size=80)


def bits_of(members: set[int]) -> np.ndarray:
    bits = empty_bits(COUNT)
    assert add_new(bits, np.array(sorted(members), np.int64)) == -1
    return bits


def test_by_hand() -> None:
    bits = empty_bits(70)
    assert len(bits) == 2
    assert add_new(bits, np.array([3, 64, 69, 64, 5])) == 3  # 64 comes a second time; 5 is not looked at
    assert bits.tolist() == [1 << 3, (1 << 0) | (1 << 5)]
    assert size(bits) == 3
    assert first_missing(bits, full_bits(70)) == 0
    assert full_bits(70).tolist() == [2**64 - 1, 2**6 - 1]
    assert full_bits(64).tolist() == [2**64 - 1]


@given(positions)
def test_add_new_stops_at_the_first_repeat(came: list[int]) -> None:
    repeats = [i for i, position in enumerate(came) if position in came[:i]]
    bits = empty_bits(COUNT)
    assert add_new(bits, np.array(came, np.int32)) == (repeats[0] if repeats else -1)
    assert size(bits) == len(set(came[: repeats[0]] if repeats else came))


@given(st.sets(st.integers(0, COUNT - 1)), st.sets(st.integers(0, COUNT - 1)))
def test_first_missing(members: set[int], wanted: set[int]) -> None:
    assert first_missing(bits_of(members), bits_of(wanted)) == min(wanted - members, default=-1)


@given(st.sets(st.integers(0, COUNT - 1)), positions)
def test_ranks_count_smaller_members(members: set[int], asked: list[int]) -> None:
    bits = bits_of(members)
    before, rank = np.empty(len(bits), np.int64), np.empty(len(asked), np.int64)
    assert ones_before(bits, before) == len(members)
    ranks(bits, before, np.array(asked, np.int64), rank)
    ordered = sorted(members)
    assert rank.tolist() == [ordered.index(position) if position in members else -1 for position in asked]


@given(st.lists(st.integers(0, 3), max_size=70), st.integers(0, 3), st.integers(0, 130))
def test_add_equal_marks_where_a_value_stands(values: list[int], wanted: int, first: int) -> None:
    bits = empty_bits(COUNT)
    add_equal(bits, np.array(values, np.uint8), wanted, first)
    assert bits.tolist() == bits_of({first + i for i, value in enumerate(values) if value == wanted}).tolist()
