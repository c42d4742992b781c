"""Numbers of nodes and sub-parts."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.store.sharding.node_order import order_nodes, sub_part_offsets


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=40))
def test_nodes_are_ordered_by_part_then_locality_then_position(rows: list[tuple[int, int]]) -> None:
    owner, locality = np.array(rows, np.int32).reshape(-1, 2).T.copy()
    order = order_nodes(owner, 4, locality)
    assert order.position_of_global.tolist() == sorted(range(len(rows)), key=lambda node: (*rows[node], node))
    assert np.array_equal(order.position_of_global[order.global_of_position], np.arange(len(rows)))
    assert np.diff(order.offsets).tolist() == [sum(part == owner for part, _ in rows) for owner in range(4)]
    assert order.positions(2).tolist() == [node for node in order.position_of_global.tolist() if rows[node][0] == 2]


def test_sub_parts_have_equal_nodes_and_edges_by_hand() -> None:
    """Weights 1 + in-degree of part 1 in order: 4 1 1 2, so its halves are {4} and {1, 1, 2}."""
    order = order_nodes(np.array([0, 1, 1, 1, 1], np.int32), 2, np.arange(5, dtype=np.int32))
    in_degree = np.array([9, 3, 0, 0, 1])
    assert sub_part_offsets(order, 1, 2, in_degree).tolist() == [1, 2, 5]
    assert sub_part_offsets(order, 1, 1, in_degree).tolist() == [1, 5]
    assert sub_part_offsets(order, 0, 3, in_degree).tolist() == [0, 0, 1, 1]


def test_an_empty_part_has_empty_sub_parts() -> None:
    order = order_nodes(np.zeros(3, np.int32), 2, np.zeros(3, np.int32))
    assert sub_part_offsets(order, 1, 3, np.zeros(3, np.int32)).tolist() == [3, 3, 3, 3]
