"""Opening parts: owners, user ids, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from starling.core.assignment import Assignment
from starling.core.errors import InputError
from starling.store.graph import create_graph
from starling.store.parts import Parts, open_parts
from starling.store.policies import node_policy
from starling.store.shards import build_parts
from starling.stream.arrays import ArrayEdges
from starling.stream.ingest import ImportOptions
from starling.stream.raw import RawGraph
from tests.support.graphs import write_assignment

NAMES = ["bee", "ant", "élan", "", "dog"]


def parts_of(directory: Path, source: list[object], destination: list[object], nodes: int) -> Parts:
    graph = create_graph(RawGraph(ArrayEdges((source, destination))), directory / "graph", ImportOptions(ids="relabel"))
    assert graph.nodes == nodes
    owner = np.arange(nodes, dtype=np.int32)[::-1] % 3
    edges = graph.manifest.edges
    assigned = write_assignment(directory / "assignment", Assignment("edge-cut", 3, owner.copy()), edges)
    (directory / "parts").mkdir()
    build_parts(graph, assigned, directory / "parts", memory=1 << 30)
    return open_parts(directory / "parts")


def test_owners_are_found_by_range(tmp_path: Path) -> None:
    parts = parts_of(tmp_path, [0, 1, 2, 3], [1, 2, 3, 4], 5)
    assert len(parts) == 3
    assert parts.owner_of(np.arange(5)).tolist() == [0, 0, 1, 1, 2]
    with pytest.raises(InputError, match=r"Expected global ids in \[0, 5\), got 5"):
        parts.owner_of(np.array([1, 5]))


@pytest.mark.parametrize(
    ("source", "destination", "unknown"),
    [
        ([0, 1, 2, 3], [1, 2, 3, 4], np.array([2, 77])),
        ([70, -4, 12, 9], [-4, 12, 9, 1 << 40], np.array([9, 77])),
        (NAMES[:4], NAMES[1:], pa.array(["dog", "cat"])),
    ],
)
def test_user_ids_go_in_and_come_out(tmp_path: Path, source: list[object], destination: list[object], unknown: object) -> None:
    parts = parts_of(tmp_path, source, destination, 5)
    ids = list(dict.fromkeys([*source, *destination]))
    known = pa.array(ids) if isinstance(ids[0], str) else np.array(ids)
    found = parts.from_user(known)
    assert sorted(found.tolist()) == list(range(5))
    assert parts.to_user(found).tolist() == ids
    assert parts.to_user(found[[3, 0, 3]]).tolist() == [ids[3], ids[0], ids[3]]
    with pytest.raises(InputError, match=r"no node with the id '(77|cat)'"):
        parts.from_user(unknown)


def test_a_part_that_is_not_there_is_refused(tmp_path: Path) -> None:
    parts = parts_of(tmp_path, [0, 1], [1, 2], 3)
    with pytest.raises(InputError, match="Expected a part from 0 to 2, got 3"):
        parts.shard(3)
    with pytest.raises(InputError, match="has no node table 'x'"):
        parts.shard(0).node_table("x")
    with pytest.raises(InputError, match="no node type 'paper'"):
        node_policy(parts.manifest, "paper")


def test_a_truncated_file_is_noticed(tmp_path: Path) -> None:
    parts = parts_of(tmp_path, [0, 1], [1, 2], 3)
    with (parts.path / "part-00001" / "position.npy").open("ab") as file:
        file.write(b"!")
    with pytest.raises(InputError, match=r"position\.npy has"):
        open_parts(parts.path)


def test_a_graph_is_not_parts(tmp_path: Path) -> None:
    parts_of(tmp_path, [0, 1], [1, 2], 3)
    with pytest.raises(InputError, match="Expected a starling-parts directory"):
        open_parts(tmp_path / "graph")
