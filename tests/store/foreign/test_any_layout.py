"""Partitions of other tools are recognised, those that Starling exported among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.core.assignment import AssignmentManifest
from starling.core.errors import InputError
from starling.store.export import export_graph
from starling.store.foreign.any_layout import read_foreign_assignment
from starling.store.foreign.export_parts import export_parts
from starling.store.graph import open_graph
from tests.store.foreign.test_dgl_layout import parts_of

EDGES = 6


@pytest.mark.parametrize(("form", "inside"), [("metis", "graph.part.3"), ("dgl", "graph")])
def test_an_export_is_read_as_a_whole_or_by_what_is_in_it(tmp_path: Path, form: Any, inside: str) -> None:
    parts = parts_of(tmp_path)
    export_parts(parts, tmp_path / "out", form)
    for place in (tmp_path / "out", tmp_path / "out" / inside):
        assert read_foreign_assignment(place, 6, EDGES).owner.tolist() == [1, 0, 2, 0, 1, 1]


def test_what_holds_no_partition_is_refused(tmp_path: Path) -> None:
    parts_of(tmp_path)
    export_graph(open_graph(tmp_path / "graph"), tmp_path / "out", "csv")
    with pytest.raises(InputError, match="a graph exported as csv, which says nothing of parts"):
        read_foreign_assignment(tmp_path / "out", 6, EDGES)
    with pytest.raises(InputError, match="There is no partition at"):
        read_foreign_assignment(tmp_path / "nowhere", 6, EDGES)


@pytest.mark.parametrize(("nodes", "edges"), [(5, EDGES), (7, EDGES), (6, EDGES - 1)])
def test_the_assignment_of_another_graph_is_refused(nodes: int, edges: int, tmp_path: Path) -> None:
    parts_of(tmp_path)
    sentence = f"Expected an assignment of {nodes} nodes and {edges} edges, got one of 6 and 6"
    with pytest.raises(InputError, match=sentence):
        read_foreign_assignment(tmp_path / "assignment", nodes, edges)
    assert read_foreign_assignment(tmp_path / "assignment", 6, EDGES).parts == 3


@pytest.mark.parametrize(
    ("parts", "fault"), [(np.zeros(4, np.uint16), "no part, as uint16"), (np.full(6, 3, np.uint16), "outside its 3 parts")]
)
def test_edges_placed_wrongly_are_refused(parts: Any, fault: str, tmp_path: Path) -> None:
    parts_of(tmp_path, edge_part=np.zeros(6, np.uint16))
    np.save(tmp_path / "assignment" / "edge_part.npy", parts)
    AssignmentManifest.read(tmp_path / "assignment").seal(tmp_path / "assignment")
    with pytest.raises(InputError, match=fault):
        read_foreign_assignment(tmp_path / "assignment", 6, EDGES)
