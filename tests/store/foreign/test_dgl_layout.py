"""DGL's partition folders: each layout read, parts written and read back, bad folders refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.core.assignment import Assignment
from starling.core.errors import InputError
from starling.store.foreign.dgl_layout import NodeTypes, read_dgl_partition, write_dgl_partition
from starling.store.foreign.dgl_tensors import read_dgl_tensors, write_dgl_tensors
from starling.store.parts import Parts, open_parts
from starling.store.shards import build_parts
from tests.support.graphs import write_assignment, write_graph

ORIGINAL = np.array([1, 3, 4, 0, 2])
"""New node 0 was node 1, new node 1 was node 3, and so on; the first two are in part 0."""
METADATA: dict[str, Any] = {"graph_name": "toy", "num_parts": 2, "node_map": {"_N": [[0, 2], [2, 5]]}}


def folder_of(tmp_path: Path, metadata: dict[str, Any]) -> Path:
    (tmp_path / "toy.json").write_text(json.dumps(metadata))
    return tmp_path


def test_ranges_and_original_ids_saved_by_the_user(tmp_path: Path) -> None:
    np.save(tmp_path / "orig_nids.npy", ORIGINAL)
    assignment = read_dgl_partition(folder_of(tmp_path, METADATA), 5)
    assert assignment.parts == 2
    assert assignment.owner.tolist() == [1, 0, 1, 0, 1]
    assert assignment.locality is not None
    assert assignment.locality.tolist() == [3, 0, 4, 1, 2]


def test_ranges_and_original_ids_in_every_part(tmp_path: Path) -> None:
    for part, ids in enumerate((ORIGINAL[:2], ORIGINAL[2:])):
        (tmp_path / f"part{part}").mkdir()
        write_dgl_tensors(tmp_path / f"part{part}" / "orig_nids.dgl", {"_N": ids})
    old_style = METADATA | {"node_map": [2, 5]}
    assert read_dgl_partition(folder_of(tmp_path, old_style), 5).owner.tolist() == [1, 0, 1, 0, 1]


def test_a_map_of_nodes_to_parts(tmp_path: Path) -> None:
    np.save(tmp_path / "node_map.npy", np.array([1, 0, 1, 0, 1]))
    elsewhere = METADATA | {"node_map": "/home/somebody/out/node_map.npy"}
    assert read_dgl_partition(folder_of(tmp_path, elsewhere), 5).owner.tolist() == [1, 0, 1, 0, 1]


def test_the_assignment_of_the_dispatch_pipeline(tmp_path: Path) -> None:
    (tmp_path / "partition_meta.json").write_text('{"algo_name": "metis", "num_parts": 3, "version": "1.0.0"}')
    (tmp_path / "_N.txt").write_text("0\n1\n0\n")
    assignment = read_dgl_partition(tmp_path, 3)
    assert (assignment.parts, assignment.owner.tolist()) == (3, [0, 1, 0])


@pytest.mark.parametrize("saved_by", ["DGL", "the user"])
def test_node_types_are_numbered_apart(tmp_path: Path, saved_by: str) -> None:
    """Nodes a0 b0 a1 b1 b2; part 0 has a1, b0, b2 as new ids 0, 1, 2, and part 1 has a0, b1 as 3, 4."""
    types = NodeTypes(np.array([0, 1, 0, 1, 1], np.uint8), ("a", "b"))
    metadata = METADATA | {"node_map": {"a": [[0, 1], [3, 4]], "b": [[1, 3], [4, 5]]}}
    if saved_by == "the user":
        np.savez(tmp_path / "orig_nids.npz", a=np.array([1, 0]), b=np.array([0, 2, 1]))
    for part, ids in enumerate(({"a": [1], "b": [0, 2]}, {"a": [0], "b": [1]}) if saved_by == "DGL" else ()):
        (tmp_path / f"part{part}").mkdir()
        tensors = {name: np.array(values) for name, values in ids.items()}
        write_dgl_tensors(tmp_path / f"part{part}" / "orig_nids.dgl", tensors)
    assignment = read_dgl_partition(folder_of(tmp_path, metadata), 5, types)
    assert assignment.owner.tolist() == [1, 0, 0, 1, 0]
    assert assignment.locality is not None
    assert assignment.locality.tolist() == [3, 1, 0, 4, 2]


def parts_of(directory: Path, **changes: Any) -> Parts:
    owner = np.array([1, 0, 2, 0, 1, 1], np.int32)
    pairs = np.array([[0, 1], [1, 0], [2, 1], [3, 4], [5, 2], [0, 0]])
    tables = changes.pop("tables", {})
    graph = write_graph(directory / "graph", pairs, 6, node_tables=tables, node_types=changes.pop("types", ()))
    assignment = (
        Assignment("edge-cut", 3, owner) if "edge_part" not in changes else Assignment("vertex-cut", 3, owner, **changes)
    )
    assigned = write_assignment(directory / "assignment", assignment, len(pairs))
    (directory / "parts").mkdir()
    build_parts(graph, assigned, directory / "parts", memory=1 << 30)
    return open_parts(directory / "parts")


def test_parts_come_back_as_they_were(tmp_path: Path) -> None:
    parts = parts_of(tmp_path)
    write_dgl_partition(parts, tmp_path / "dgl", "toy")
    metadata = json.loads((tmp_path / "dgl" / "toy.json").read_text())
    assert metadata["node_map"] == {"_N": [[0, 2], [2, 5], [5, 6]]}
    assert metadata["edge_map"] == {"_N:_E:_N": [[0, 2], [2, 5], [5, 6]]}
    assert metadata["num_edges"] == 6
    original = read_dgl_tensors(tmp_path / "dgl" / "part1" / "orig_nids.dgl")["_N"]
    assert np.array_equal(original, parts.position_of_global[2:5])
    assert (tmp_path / "dgl" / "_N.txt").read_text() == "1\n0\n2\n0\n1\n1\n"
    back = read_dgl_partition(tmp_path / "dgl", 6)
    assert back.owner.tolist() == [1, 0, 2, 0, 1, 1]
    assert back.locality is not None
    assert np.array_equal(back.locality, parts.global_of_position)


def test_parts_with_node_types_come_back(tmp_path: Path) -> None:
    codes = np.array([0, 1, 1, 0, 0, 1], np.uint8)
    parts = parts_of(tmp_path, types=("paper", "author"), tables={"type": codes})
    write_dgl_partition(parts, tmp_path / "dgl")
    assert (tmp_path / "dgl" / "author.txt").read_text() == "0\n2\n1\n"
    back = read_dgl_partition(tmp_path / "dgl", 6, NodeTypes(codes, ("paper", "author")))
    assert back.owner.tolist() == [1, 0, 2, 0, 1, 1]


def test_a_vertex_cut_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="DGL's partitions are edge-cuts"):
        write_dgl_partition(parts_of(tmp_path, edge_part=np.zeros(6, np.uint16)), tmp_path / "dgl")
    assert not (tmp_path / "dgl").exists()


def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exists already"):
        write_dgl_partition(parts_of(tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("metadata", "files", "sentence"),
    [
        (None, {}, "has neither DGL's metadata"),
        (METADATA, {}, "return_mapping=True"),
        (METADATA, {"orig_nids": np.arange(4)}, "Expected 5 original node ids"),
        (METADATA, {"orig_nids": np.array([0, 1, 2, 3, 9])}, "Expected 5 original node ids"),
        (METADATA, {"orig_nids": np.array([0, 1, 2, 3, 3])}, "do not name every node once"),
        (METADATA | {"num_parts": 3}, {}, "a range of ids for each of 3 parts"),
        (METADATA | {"num_parts": "two"}, {}, "Expected num_parts .* got 'two'"),
        (METADATA | {"num_parts": 0}, {}, "Expected num_parts"),
        (METADATA | {"node_map": {"_N": [[0, 2], [2, 4]]}}, {}, "4 nodes; this graph has 5"),
        (METADATA | {"node_map": {"_N": [[0, 2], "x"]}}, {}, "Expected node_map"),
        (METADATA | {"node_map": 7}, {}, "Expected node_map"),
        (METADATA | {"node_map": {"a": [[0, 1], [1, 2]], "b": [[2, 3], [3, 5]]}}, {}, "node types a, b, but .* no types"),
        (METADATA | {"node_map": "node_map.npy"}, {}, "node_map.npy is missing"),
        (METADATA | {"node_map": "node_map.npy"}, {"node_map": np.array([0, 1, 2, 0, 0])}, "Expected a part from 0 to 1"),
        (METADATA | {"node_map": "node_map.npy"}, {"node_map": np.array([0, 1])}, "for each of 5 nodes"),
    ],
)
def test_a_bad_folder_is_refused(
    tmp_path: Path, metadata: dict[str, Any] | None, files: dict[str, np.ndarray], sentence: str
) -> None:
    if metadata is not None:
        folder_of(tmp_path, metadata)
    for name, values in files.items():
        np.save(tmp_path / f"{name}.npy", values)
    with pytest.raises(InputError, match=sentence):
        read_dgl_partition(tmp_path, 5)


def test_broken_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "toy.json").write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        read_dgl_partition(tmp_path, 5)


def test_two_graphs_in_one_folder_are_refused(tmp_path: Path) -> None:
    folder_of(tmp_path, METADATA)
    (tmp_path / "second.json").write_text(json.dumps(METADATA))
    with pytest.raises(InputError, match=r"several graphs: second\.json, toy\.json"):
        read_dgl_partition(tmp_path, 5)


def test_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Expected a folder written by DGL"):
        read_dgl_partition(tmp_path / "nothing", 5)
