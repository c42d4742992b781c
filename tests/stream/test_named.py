"""Numbered graphs given the user's ids."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from starling.core.errors import InputError
from starling.stream.arrays import ArrayEdges, ArrayTable
from starling.stream.named import named
from starling.stream.raw import RawGraph
from tests.support.raw import all_edges, all_rows

EDGES = ArrayEdges(np.array([[0, 2], [1, 0], [2, 2]]), {"weight": np.array([1.0, 2.0, 3.0])}, block=2)


def test_edges_and_tables_get_the_ids() -> None:
    tables = (
        ArrayTable("a", {"y": np.array([0, 1, 2])}, block=2),
        ArrayTable("b", {"x": np.ones((3, 1))}),
        ArrayTable("c", {"size": np.ones(2)}, of_type="cat"),
    )
    raw = named(RawGraph(EDGES, tables, 3), pa.array(["u", "v", "w"]))
    edges = all_edges(raw.edges)
    assert (edges.source.to_pylist(), edges.destination.to_pylist()) == (["u", "v", "w"], ["w", "u", "w"])
    assert edges.columns["weight"].tolist() == [1.0, 2.0, 3.0]
    assert [table.defines_nodes for table in raw.tables] == [True, False, False]
    assert all_rows(raw.tables[0]).ids.to_pylist() == ["u", "v", "w"]
    assert raw.tables[2] is tables[2]  # rows of one type stay in the order of its nodes


def test_a_graph_without_tables_gets_one_of_ids() -> None:
    raw = named(RawGraph(EDGES), np.array([30, 10, 20]))
    assert raw.nodes == 3
    (table,) = raw.tables
    assert table.defines_nodes
    assert [rows.ids.tolist() for rows in table.blocks()] == [[30, 10, 20]]  # type: ignore[union-attr]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="each of the 3 nodes, got 2"):
        named(RawGraph(EDGES, nodes=3), np.array([1, 2]))
    with pytest.raises(InputError, match=r"Expected ends of edges in \[0, 2\), got 2"):
        all_edges(named(RawGraph(EDGES), np.array([1, 2])).edges)
    with pytest.raises(InputError, match="rows in node order in t, got ids"):
        named(RawGraph(EDGES, (ArrayTable("t", {"y": np.zeros(3)}, ids=[1, 2, 3]),)), np.array([1, 2, 3]))
