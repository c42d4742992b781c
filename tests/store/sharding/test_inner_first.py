"""Nodes with neighbours in other parts come last, by hand and against sorting."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.store.sharding.inner_first import Crossings, order_inner_first
from starling.store.sharding.node_order import order_nodes


def test_a_part_by_hand() -> None:
    """Part 0 has nodes 0 … 4, part 1 node 5: 0 hears of it, 1 does and is heard of, 2 is inner, 3 is heard of, 4 has no edges."""
    owner = np.array([0, 0, 0, 0, 0, 1], np.int32)
    crossings = Crossings.between(owner)
    crossings.note(np.array([[5, 0], [5, 1], [1, 5], [2, 1]]))
    crossings.note(np.array([[0, 2], [3, 5], [5, 5]], np.int32))
    order = order_nodes(owner, 2, np.arange(6, dtype=np.int32))
    order_inner_first(order, [np.array([0, 5]), np.array([5, 6])], crossings)
    assert order.position_of_global.tolist() == [2, 4, 3, 1, 0, 5]
    assert order.global_of_position.tolist() == [4, 3, 0, 2, 1, 5]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=60),
    st.integers(1, 3),
)
def test_sent_rows_and_waiting_rows_are_ranges(
    nodes: list[tuple[int, int]], edges: list[tuple[int, int]], sub_parts: int
) -> None:
    owner, locality = np.array(nodes, np.int32).T.copy()
    pairs = np.array(edges, np.int64).reshape(-1, 2) % len(nodes)
    order = order_nodes(owner, 3, locality)
    plain = order.position_of_global.tolist()
    cuts = [np.linspace(order.offsets[part], order.offsets[part + 1], sub_parts + 1).astype(np.int64) for part in range(3)]
    crossings = Crossings.between(owner)
    crossings.note(pairs)
    order_inner_first(order, cuts, crossings)

    heard = {int(source) for source, destination in pairs if owner[source] != owner[destination]}
    hears = {int(destination) for source, destination in pairs if owner[source] != owner[destination]}
    expected: list[int] = []
    for bounds in cuts:
        for low, high in itertools.pairwise(bounds):
            mine = plain[low:high]
            expected += [node for node in mine if node not in heard and node not in hears]
            expected += [node for node in mine if node in heard and node not in hears]
            expected += [node for node in mine if node in heard and node in hears]
            expected += [node for node in mine if node not in heard and node in hears]
    assert order.position_of_global.tolist() == expected
    assert np.array_equal(order.position_of_global[order.global_of_position], np.arange(len(nodes)))
