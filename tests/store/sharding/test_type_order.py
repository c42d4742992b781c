"""Nodes of a sub-part type by type, by hand and against sorting; types that cannot be."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.store.sharding.node_order import order_nodes
from starling.store.sharding.type_order import order_by_type, read_types
from tests.support.graphs import write_graph


def test_two_sub_parts_by_hand() -> None:
    """Part 0 has nodes 0 … 4 in this order, cut after 3 of them; part 1 has none; part 2 node 5."""
    order = order_nodes(np.array([0, 0, 0, 0, 0, 2], np.int32), 3, np.arange(6, dtype=np.int32))
    bounds = [np.array(cut) for cut in ([0, 3, 5], [5, 5, 5], [5, 6, 6])]
    found = order_by_type(order, bounds, np.array([2, 0, 2, 1, 0, 1], np.uint8), 3)
    assert order.position_of_global.tolist() == [1, 0, 2, 4, 3, 5]
    assert order.global_of_position.tolist() == [1, 0, 2, 4, 3, 5]
    assert [ranges.tolist() for ranges in found] == [[0, 1, 1, 3, 4, 5, 5], [5] * 7, [5, 5, 6, 6, 6, 6, 6]]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 2)), max_size=40), st.integers(1, 3))
def test_nodes_of_a_type_keep_their_order(rows: list[tuple[int, int, int]], sub_parts: int) -> None:
    owner, locality, codes = np.array(rows, np.int32).reshape(-1, 3).T.copy()
    order = order_nodes(owner, 3, locality)
    plain = order.position_of_global.tolist()
    cuts = [np.linspace(order.offsets[part], order.offsets[part + 1], sub_parts + 1).astype(np.int64) for part in range(3)]
    found = order_by_type(order, cuts, codes, 3)
    expected: list[int] = []
    for bounds in cuts:
        for low, high in itertools.pairwise(bounds):
            expected += sorted(plain[low:high], key=lambda node: rows[node][2])
    assert order.position_of_global.tolist() == expected
    assert np.array_equal(order.position_of_global[order.global_of_position], np.arange(len(rows)))
    for ranges, bounds in zip(found, cuts, strict=True):
        assert ranges[::3].tolist() == bounds.tolist()
        for k, (low, high) in enumerate(itertools.pairwise(ranges)):
            assert (codes[order.position_of_global[low:high]] == k % 3).all()


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"x": np.zeros(3)}, "has node types but no table 'type'"),
        ({"type": np.array([0, 2, 1], np.uint8)}, r"Expected node types in \[0, 2\), got 2"),
        ({"type": np.array([0, -1, 1], np.int8)}, r"Expected node types in \[0, 2\), got -1"),
    ],
)
def test_types_that_cannot_be(tmp_path: Path, tables: dict[str, Any], sentence: str) -> None:
    graph = write_graph(tmp_path / "graph", np.array([[0, 1]]), 3, node_tables=tables, node_types=("cat", "dog"))
    with pytest.raises(InputError, match=sentence):
        read_types(graph.path, graph.manifest)
