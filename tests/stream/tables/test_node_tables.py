from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.core.manifest import GraphManifest, Labels
from starling.stream.arrays import ArrayEdges, ArrayTable
from starling.stream.ingest import ImportOptions, ingest
from starling.stream.raw import RawGraph
from starling.stream.tables.node_tables import table_key

PAIRS = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]])
TYPES = ArrayTable("types", {"type": ["paper", "author", "paper", "author", "paper"]})


def imported(directory: Path, *tables: ArrayTable, **options: Any) -> tuple[GraphManifest, dict[str, np.ndarray]]:
    manifest = ingest(RawGraph(ArrayEdges(PAIRS), tables), ImportOptions(**options), directory)
    return manifest, {path.name.removesuffix(".npy"): np.load(path) for path in directory.iterdir()}


def test_types_with_tables_of_their_own(tmp_path: Path) -> None:
    papers = ArrayTable("papers", {"x": np.eye(3), "y": np.array([1, 0, -1]), "train": np.array([1, 0, 0])}, of_type="paper")
    authors = ArrayTable("authors", {"x": np.array([[5.0], [6.0]]), "train": np.array([0, 1])}, ids=[3, 1], of_type="author")
    manifest, files = imported(tmp_path, papers, authors, TYPES)
    assert manifest.node_types == ("author", "paper")
    assert files["type"].tolist() == [1, 0, 1, 0, 1]
    assert files["x@paper"].tolist() == np.eye(3).tolist()
    assert files["x@author"].tolist() == [[6], [5]]
    assert files["train@author"].tolist() == [True, False]
    assert manifest.node_tables["x@author"].of_type == "author"
    assert manifest.node_tables["x@author"].shape == (2, 1)
    assert manifest.labels == Labels(kind="single", classes=2, labelled=2)
    assert manifest.splits == {"train": 2}


def test_a_split_is_drawn_for_the_type_that_has_labels(tmp_path: Path) -> None:
    papers = ArrayTable("papers", {"y": np.array([1, 0, 1])}, of_type="paper")
    manifest, files = imported(tmp_path, TYPES, papers, split=(67, 33, 0))
    assert manifest.splits == {"train": 2, "val": 1, "test": 0}
    assert manifest.node_tables["val@paper"].of_type == "paper"
    assert files["val@paper"].shape == (3,)


def test_a_type_of_no_nodes_has_an_empty_table(tmp_path: Path) -> None:
    types = ArrayTable("types", {"type": np.zeros(5, int)})
    empty = ArrayTable("venues", {"x": np.empty((0, 7))}, of_type="venue")
    raw = RawGraph(ArrayEdges(PAIRS), (types, empty), node_types=("paper", "venue"))
    manifest = ingest(raw, ImportOptions(), tmp_path)
    assert manifest.node_tables["x@venue"].shape == (0, 7)
    assert np.load(tmp_path / "x@venue.npy").shape == (0, 7)


def test_tables_may_be_called_anything(tmp_path: Path) -> None:
    names = ["train_masks", "a b", "../etc", "x.indptr", "ids.hash", "50%"]
    table = ArrayTable("t", {name: np.full((5, 2), number) for number, name in enumerate(names)})
    manifest, files = imported(tmp_path, table)
    assert sorted(manifest.node_tables) == sorted(names)
    for number, name in enumerate(names):
        (file,) = manifest.node_tables[name].files
        assert (tmp_path / file).parent == tmp_path
        assert files[file.removesuffix(".npy")].tolist() == [[number] * 2] * 5
    assert manifest.node_tables["train_masks"].files == ("train_masks.npy",)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            [TYPES, ArrayTable("p", {"x": np.ones(2)}, of_type="paper")],
            "Expected 3 rows in p, one for each node of type 'paper', got 2.",
        ),
        (
            [TYPES, ArrayTable("p", {"x": np.ones(3)}, ids=[0, 1, 2], of_type="paper")],
            "Expected only nodes of type 'paper' in p, got node 1 of another type at row 1 of p.",
        ),
        (
            [TYPES, ArrayTable("p", {"x": np.ones(2)}, ids=[0, 4], of_type="paper")],
            "Node 2 is missing from p, which needs a row for every node of type 'paper'.",
        ),
        ([TYPES, ArrayTable("p", {"x": np.ones(2)}, ids=[0, 0], of_type="paper")], "Node 0 stands twice in p"),
        ([TYPES, ArrayTable("p", {"x": np.ones(2)}, of_type="papre")], "which is no known type. Did you mean 'paper'"),
        (
            [TYPES, ArrayTable("p", {"y": np.ones(3)}, of_type="paper"), ArrayTable("a", {"y": np.ones(2)}, of_type="author")],
            "Expected labels for all nodes or for one type, got y@paper and y@author.",
        ),
        (
            [ArrayTable("p", {}, ids=[0], defines_nodes=True), ArrayTable("q", {}, ids=[0], defines_nodes=True)],
            "Expected one node table, got p and q.",
        ),
        (
            [ArrayTable("p", {}, ids=[0], defines_nodes=True, of_type="a")],
            "The node table p must list all nodes, not only those of type 'a'.",
        ),
        (
            [TYPES, ArrayTable("p", {"train": np.array([1, 0, 0]), "val": np.array([1, 0, 0])}, of_type="paper")],
            "got node 0 of type 'paper' in both train and val.",
        ),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, tables: list[ArrayTable], message: str) -> None:
    with pytest.raises(InputError) as caught:
        imported(tmp_path, *tables)
    assert message in str(caught.value)


def test_keys() -> None:
    assert table_key("x", None) == "x"
    assert table_key("x", "paper") == "x@paper"
