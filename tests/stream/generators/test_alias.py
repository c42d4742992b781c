"""Alias tables hold exactly the weights they were made of."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.stream.generators.alias import FULL, fill_alias, pick


def table_of(weights: list[int]) -> NDArray[np.uint32]:
    table = np.empty((len(weights), 3), np.uint32)
    fill_alias(np.array(weights, np.int64), np.arange(len(weights), dtype=np.int32), table)
    return table


def chances(table: NDArray[np.uint32]) -> NDArray[np.float64]:
    """The slow twin: add up each name's shares of all slots."""
    chance = np.zeros(len(table))
    for share, own, other in table.tolist():
        chance[own] += share / FULL / len(table)
        chance[other] += (1 - share / FULL) / len(table)
    return chance


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60).filter(any))
def test_chances_are_the_weights(weights: list[int]) -> None:
    expected = np.array(weights) / sum(weights)
    np.testing.assert_allclose(chances(table_of(weights)), expected, rtol=1e-9, atol=2e-9)


def test_worked_by_hand() -> None:
    # Weights 1, 3, 4 of 8: a slot is worth 8/3. Slot 0 holds its 1 (3/8 of a slot) and 5/3 of name 1, which has 4/3 left: half
    # a slot, so it closes its own, topped up by name 2, which then has 4 − 4/3 = 8/3 left: exactly its own slot.
    table = table_of([1, 3, 4])
    assert table[:, 1:].tolist() == [[0, 1], [1, 2], [2, 2]]
    np.testing.assert_allclose(table[:, 0] / FULL, [3 / 8, 1 / 2, 1], atol=1e-9)


def test_pick_reads_the_slot_and_its_share() -> None:
    table = table_of([1, 3])  # slot 0: name 0 below one half, then name 1
    assert [pick(table, 0, 2, unit) for unit in (0.0, 0.24, 0.26, 0.49, 0.5, 1 - 2**-53)] == [0, 0, 1, 1, 1, 1]


def test_a_name_without_weight_is_never_picked() -> None:
    table = table_of([0, 5])
    assert {pick(table, 0, 2, unit) for unit in (0.0, 0.2, 0.49999999, 0.5, 0.9)} == {1}
