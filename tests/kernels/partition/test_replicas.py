"""Replica sets behave as sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.partition.replicas import add, empty_sets, holds


@given(st.integers(1, 200), st.data())
def test_sets_hold_what_was_added(parts: int, data: st.DataObject) -> None:
    sets, twin = empty_sets(3, parts), [set[int](), set[int](), set[int]()]
    for node, part in data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, parts - 1)), max_size=30)):
        add(sets, node, part)
        twin[node].add(part)
    for node in range(3):
        assert {part for part in range(parts) if holds(sets, node, part)} == twin[node]
