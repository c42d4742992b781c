"""METIS .part files: there and back, and what is wrong with the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.core.assignment import Assignment
from starling.core.errors import InputError
from starling.store.foreign.metis_file import read_metis_part, write_metis_part
from starling.store.parts import open_parts
from starling.store.shards import build_parts
from tests.support.graphs import write_assignment, write_graph


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "graph.part.3"
    path.write_text("0\n2\n 1\n0\n")
    assignment = read_metis_part(path, 4)
    assert (assignment.kind, assignment.parts) == ("edge-cut", 3)
    assert assignment.owner.tolist() == [0, 2, 1, 0]
    assert assignment.owner.dtype == np.int32


def test_remarks_and_empty_lines_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "graph.part.2"
    path.write_text("% made by hand\n\n0\n1\n\n")
    assert read_metis_part(path, 2, parts=5).parts == 5
    assert read_metis_part(path, 2).owner.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "nodes", "parts", "sentence"),
    [
        ("0\n1\n", 3, None, "Expected 3 lines .* got 2"),
        ("0\n1\n0\n1\n", 3, None, "Expected 3 lines .* got more"),
        ("0\nhalf\n1\n", 3, None, "line 2 of .* got 'half'"),
        ("0\n0.5\n1\n", 3, None, "line 2 of .* got '0.5'"),
        ("0\n1 2\n1\n", 3, None, "line 2 of .* got '1 2'"),
        ("0\n-1\n1\n", 3, None, "got -1 near line 2"),
        ("0\n4\n1\n", 3, 4, "a part from 0 to 3 .* got 4 near line 2"),
        ("0\n99999\n1\n", 3, None, "got 99999"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, nodes: int, parts: int | None, sentence: str) -> None:
    path = tmp_path / "graph.part"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_metis_part(path, nodes, parts)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_metis_part(tmp_path / "graph.part", 3)


def test_parts_are_written_in_imported_order(tmp_path: Path) -> None:
    owner = np.array([2, 0, 1, 1, 0], np.int32)
    graph = write_graph(tmp_path / "graph", np.array([[0, 1], [1, 2], [3, 4]]), 5)
    assigned = write_assignment(tmp_path / "assignment", Assignment("edge-cut", 3, owner), 3)
    (tmp_path / "parts").mkdir()
    build_parts(graph, assigned, tmp_path / "parts", memory=1 << 30)
    write_metis_part(open_parts(tmp_path / "parts"), tmp_path / "out.part")
    assert (tmp_path / "out.part").read_text() == "2\n0\n1\n1\n0\n"
    assert read_metis_part(tmp_path / "out.part", 5).owner.tolist() == owner.tolist()
