"""``.npz``: edge arrays, whole graphs, node tables and sparse matrices, against what NumPy and SciPy read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.stream.raw import CsrRows, RawGraph
from tests.stream.readers.collected import dense, edges_of, open_graph, rows_of
from tests.support.data import DATA, real_graph

RING = np.array([[0, 1, 2], [1, 2, 0]], np.int32)


def saved(place: Path, name: str = "graph.npz", **arrays: Any) -> Path:
    np.savez_compressed(place / name, **arrays)
    return place / name


def read_all(path: Path) -> RawGraph:
    graph = open_graph(path)
    edges_of(graph.edges)
    for table in graph.tables:
        rows_of(table)
    return graph


@pytest.mark.parametrize("key", ["edge_index", "edges", "whatever"])
@pytest.mark.parametrize("turned", [False, True])
def test_just_an_edge_array(key: str, turned: bool, tmp_path: Path) -> None:
    reader = open_graph(saved(tmp_path, **{key: RING.T if turned else RING})).edges
    assert edges_of(reader).pairs == [(0, 1), (1, 2), (2, 0)]
    assert reader.place(1) == f"{'row' if turned else 'column'} 1 of {key} in {tmp_path / 'graph.npz'}"


def test_a_two_by_two_edge_index_has_an_edge_a_column(tmp_path: Path) -> None:
    pairs = np.array([[0, 1], [2, 3]])
    assert edges_of(open_graph(saved(tmp_path, edge_index=pairs)).edges).pairs == [(0, 2), (1, 3)]
    assert edges_of(open_graph(saved(tmp_path, edges=pairs)).edges).pairs == [(0, 1), (2, 3)]


def test_a_whole_graph(tmp_path: Path) -> None:
    meta = {
        "name": "ring",
        "source": "by hand",
        "licence": "none",
        "notes": "not kept",
        "node_types": {"0": "a", "1": "b"},
        "relations": ["r", "s"],
        "label_names": ["red", "blue"],
    }
    path = saved(
        tmp_path,
        edge_index=RING,
        num_nodes=np.int64(4),
        meta=json.dumps(meta),
        x=np.arange(8, dtype=np.float64).reshape(4, 2),
        y=np.array([0, 1, -1, 0]),
        train_mask=np.array([True, False, False, False]),
        test_mask=np.array([0, 1, 0, 0]),
        train_masks=np.eye(2, 4, dtype=bool),
        node_type=np.array([0, 1, 0, 1], np.uint8),
        edge_weight=np.array([1.0, 2.0, 3.0]),
        edge_attr=np.array([5, 6, 7]),
        edge_type=np.array([0, 1, 0], np.uint8),
        edge_time=np.array([0.5, 1, 1.5]),
        edge_split=np.array([0, 1, 2], np.uint8),
    )
    graph = open_graph(path)
    assert graph.nodes == 4
    assert graph.origin == {"name": "ring", "source": "by hand", "licence": "none"}
    assert (graph.node_types, graph.edge_types, graph.label_names) == (("a", "b"), ("r", "s"), ("red", "blue"))
    edges = edges_of(graph.edges)
    assert edges.columns["weight"].tolist() == [1, 2, 3]
    assert edges.columns["attr"].tolist() == [[5], [6], [7]]
    assert edges.columns["attr"].dtype == edges.columns["weight"].dtype == np.float32
    assert edges.columns["type"].tolist() == [0, 1, 0]
    assert edges.columns["time"].tolist() == [0.5, 1, 1.5]
    assert edges.columns["split"].tolist() == [0, 1, 2]
    (table,) = graph.tables
    rows = rows_of(table)
    assert (table.id_kind, table.defines_nodes, table.expected) == (None, False, 4)
    assert rows.columns["x"].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert rows.columns["y"].tolist() == [0, 1, -1, 0]
    assert rows.columns["train"].tolist() == [True, False, False, False]
    assert rows.columns["test"].tolist() == [False, True, False, False]
    assert rows.columns["test"].dtype == np.bool_
    assert rows.columns["train_masks"].tolist() == [[True, False], [False, True], [False, False], [False, False]]
    assert rows.columns["type"].tolist() == [0, 1, 0, 1]


def test_masks_with_a_node_a_row_are_left_as_they_are(tmp_path: Path) -> None:
    masks = np.eye(4, 2, dtype=bool)
    graph = open_graph(saved(tmp_path, edge_index=RING, num_nodes=np.int64(4), train_masks=masks))
    np.testing.assert_array_equal(rows_of(graph.tables[0]).columns["train_masks"], masks)


def real_names() -> list[str]:
    return sorted(path.stem for path in DATA.glob("*.npz")) or ["cora"]


@pytest.mark.parametrize("name", real_names())
def test_real_graphs_are_what_numpy_reads(name: str) -> None:
    path = real_graph(name)
    graph = open_graph(path, memory=1 << 26)
    with np.load(path) as arrays:
        expected = dict(arrays)
    assert graph.nodes == int(expected["num_nodes"])
    edges = edges_of(graph.edges)
    np.testing.assert_array_equal([edges.source, edges.destination], expected["edge_index"])
    assert {f"edge_{role}" for role in graph.edges.roles} == {key for key in expected if key[:5] == "edge_"} - {"edge_index"}
    for role, column in edges.columns.items():
        np.testing.assert_array_equal(column, expected[f"edge_{role}"])
    meta = json.loads(str(expected["meta"]))
    assert graph.origin["name"] == meta["name"]
    node_keys = {key for key in expected if not key.startswith("edge_")} - {"num_nodes", "meta"}
    key_of = {"type": "node_type", "train": "train_mask", "val": "val_mask", "test": "test_mask"}
    for table in graph.tables:
        for role, column in rows_of(table).columns.items():
            key = key_of.get(role, role)
            if isinstance(column, CsrRows):
                assert [len(column), column.width] == expected["x_shape"].tolist()
                np.testing.assert_array_equal(column.offsets, expected["x_indptr"])
                np.testing.assert_array_equal(column.columns, expected["x_indices"])
                np.testing.assert_array_equal(column.values, expected["x_data"])
                node_keys -= {"x_data", "x_indices", "x_indptr", "x_shape"}
            else:
                np.testing.assert_array_equal(column, expected[key].T if key.endswith("_masks") else expected[key])
                node_keys.remove(key)
    assert node_keys == set()


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 40),
    width=st.integers(1, 9),
    dtype=st.sampled_from(["f4", "f8", "i8", "?"]),
    seed=st.integers(0, 9),
    compressed=st.booleans(),
)
def test_scipy_matrices(
    tmp_path_factory: pytest.TempPathFactory, rows: int, width: int, dtype: str, seed: int, compressed: bool
) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    draw = np.random.default_rng(seed)
    matrix = (draw.integers(0, 5, (rows, width)) * (draw.random((rows, width)) < 0.4)).astype(dtype)
    place = tmp_path_factory.mktemp("s")
    sparse.save_npz(place / "x.npz", sparse.csr_matrix(matrix), compressed=compressed)
    graph = open_graph(saved(place, edges=RING), features=str(place / "x.npz"))
    np.testing.assert_array_equal(dense(rows_of(graph.tables[0]).columns["x"]), matrix.astype(np.float32))


def test_sparse_blocks_keep_to_the_memory(tmp_path: Path) -> None:
    """Few rows at a time where rows are long, many where they are short; offsets are read ahead in pieces."""
    lengths = np.zeros(200_000, np.int64)
    lengths[[0, 5, 150_000]] = 200_000
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    count = int(offsets[-1])
    columns = np.tile(np.arange(200_000, dtype=np.int32), 3)
    path = saved(
        tmp_path,
        "x.npz",
        x_data=np.arange(count, dtype=np.float32),
        x_indices=columns,
        x_indptr=offsets,
        x_shape=np.array([200_000, 200_000]),
    )
    table = open_graph(saved(tmp_path, edges=RING), features=str(path), memory=1 << 20).tables[0]
    blocks = [block.columns["x"] for block in table.blocks()]
    assert max(len(block.values) for block in blocks) == 200_000
    np.testing.assert_array_equal(np.concatenate([np.diff(block.offsets) for block in blocks]), lengths)
    np.testing.assert_array_equal(np.concatenate([block.values for block in blocks]), np.arange(count))
    np.testing.assert_array_equal(np.concatenate([block.columns for block in blocks]), columns)


def test_a_node_table_with_ids(tmp_path: Path) -> None:
    edges = saved(tmp_path, edges=np.array([[5, 7], [7, 9]]))
    nodes = saved(tmp_path, "n.npz", ids=np.array([9, 5, 7]), x=np.ones((3, 2)), y=np.array(["a", "b", "a"]))
    graph = open_graph(edges, nodes=str(nodes))
    (table,) = graph.tables
    assert (table.id_kind, table.defines_nodes) == ("integer", True)
    rows = rows_of(table)
    assert (rows.ids, rows.columns["y"]) == ([9, 5, 7], ["a", "b", "a"])
    text = saved(tmp_path, "n.npz", node_id=np.array(["u", "v"]))
    graph = open_graph(edges, nodes=str(text))
    assert rows_of(graph.tables[0]).ids == ["u", "v"]
    assert edges_of(graph.edges).pairs == [("5", "7"), ("7", "9")]  # all ids of a graph are of one kind
    with pytest.raises(InputError, match=r"whole numbers in node_id in .*got text\. Pass --ids string"):
        open_graph(edges, nodes=str(text), id_kind="integer")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown array": ({"edge_index": RING, "labels_": np.zeros(3)}, "array 'labels_', which has no meaning here. Did you mean"),
    "no edges": (
        {"a": RING, "b": RING},
        "edges in .* as the array edge_index or edges, or as its only array, got a, b",
    ),
    "float edges": ({"edge_index": RING.astype(float)}, "whole numbers .node ids. in edge_index in .*graph.npz, got float64"),
    "pickled": ({"edge_index": np.array([{}])}, "edge_index in .*graph.npz holds pickled"),
    "edge rows": (
        {"edge_index": RING, "edge_type": np.zeros(2, int)},
        "Expected 3 rows in edge_type in .*, one an edge .*, got 2",
    ),
    "edge type": ({"edge_index": RING, "edge_type": np.zeros((3, 2), int)}, "numbers or names with 1 dimension in edge_type"),
    "edge split": ({"edge_index": RING, "edge_split": np.zeros(3)}, "whole numbers with 1 dimension .*, got float64"),
    "node rows": (
        {"edge_index": RING, "x": np.zeros((3, 1)), "y": np.zeros(4, int)},
        "Expected as many rows in y in .* as in x in .*, 3, got 4",
    ),
    "mask values": (
        {"edge_index": RING, "train_mask": np.array([0, 2, 1])},
        "true or false in train_mask .* got 2 at row 1",
    ),
    "mask type": ({"edge_index": RING, "val_mask": np.zeros(3)}, "true or false with 1 dimension"),
    "node count": ({"edge_index": RING, "num_nodes": np.array([3, 4])}, "one whole number in num_nodes in"),
    "meta": ({"edge_index": RING, "meta": "{"}, "meta in .* is not valid JSON"),
    "meta list": ({"edge_index": RING, "meta": "[1]"}, "a JSON object in meta in .*, got list"),
    "meta type": ({"edge_index": RING, "meta": np.zeros(2)}, "a JSON text in meta"),
    "meta names": (
        {"edge_index": RING, "edge_type": np.zeros(3, int), "meta": '{"edge_types": {"1": "a"}}'},
        "Expected 'edge_types' of meta in .* to be a list of names, or names by number from 0",
    ),
    "two features": ({"edge_index": RING, "x": np.zeros((3, 1)), "features": np.zeros((3, 1))}, "gives x twice"),
}


@pytest.mark.parametrize("name", WRONG)
def test_archives_that_are_refused(name: str, tmp_path: Path) -> None:
    arrays, sentence = WRONG[name]
    with pytest.raises(InputError, match=sentence) as caught:
        read_all(saved(tmp_path, **arrays))
    assert "\n" not in str(caught.value)


def sparse_arrays(**changed: Any) -> dict[str, Any]:
    good = {
        "x_data": np.ones(3, np.float32),
        "x_indices": np.array([0, 1, 1]),
        "x_indptr": np.array([0, 1, 3]),
        "x_shape": np.array([2, 2]),
    }
    return good | changed


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"x_indices": np.array([0, 1, 2])}, r"column numbers in \[0, 2\), got 0 … 2 in x_indices"),
        ({"x_indices": np.array([0, 1])}, "as many column numbers as values"),
        ({"x_indices": np.zeros(3)}, "whole numbers in x_indices"),
        ({"x_data": np.array(["a", "b", "c"])}, "numbers in x_data"),
        ({"x_indptr": np.array([0, 3])}, "3 row offsets for 2 rows, got 2"),
        ({"x_indptr": np.array([1, 1, 3])}, "begin with 0, got 1"),
        ({"x_indptr": np.array([0, 2, 1])}, "never fall"),
        ({"x_indptr": np.array([0, 1, 9])}, "never fall and end at the last value"),
        ({"x_indptr": np.array([0, 1, 2])}, "last row offset to be 3, the number of values, got 2"),
        ({"x_shape": np.array([2.0, 2.0])}, "two lengths in x_shape"),
    ],
)
def test_sparse_matrices_that_are_refused(changed: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        read_all(saved(tmp_path, edge_index=RING, **sparse_arrays(**changed)))


def test_other_sparse_formats_are_refused(tmp_path: Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    sparse.save_npz(tmp_path / "x.npz", sparse.coo_matrix(np.eye(3)))
    with pytest.raises(InputError, match=r"in csr format in .*x.npz, got coo. Save matrix.tocsr\(\)"):
        open_graph(saved(tmp_path, edges=RING), features=str(tmp_path / "x.npz"))
    saved(tmp_path, "x.npz", format=np.array(b"csr"), data=np.zeros(1), indices=np.zeros(1, int))
    with pytest.raises(InputError, match=r"arrays data, indices, indptr, shape of a sparse matrix .* 'indptr' is missing"):
        open_graph(saved(tmp_path, edges=RING), features=str(tmp_path / "x.npz"))


def test_tables_that_are_refused(tmp_path: Path) -> None:
    edges = saved(tmp_path, edges=RING)
    with pytest.raises(InputError, match=r"Expected labels in .* as the array y or labels or label, or as its only array"):
        open_graph(edges, labels=str(saved(tmp_path, "y.npz", a=np.zeros(3), b=np.zeros(3))))
    with pytest.raises(InputError, match="array 'edge_index', which has no meaning here"):
        open_graph(edges, nodes=str(saved(tmp_path, "n.npz", edge_index=RING)))
    with pytest.raises(InputError, match=r"node ids in id in .*, got float64"):
        open_graph(edges, nodes=str(saved(tmp_path, "n.npz", id=np.zeros(3))))
    with pytest.raises(InputError, match=r"n\.npz holds no arrays"):
        open_graph(edges, nodes=str(saved(tmp_path, "n.npz")))


def test_labels_and_features_in_archives(tmp_path: Path) -> None:
    edges = saved(tmp_path, edges=RING)
    labels, features = saved(tmp_path, "y.npz", anything=np.array([2, 1, 0])), saved(tmp_path, "x.npz", x=np.eye(3))
    graph = open_graph(edges, labels=str(labels), features=str(features))
    x, y = map(rows_of, graph.tables)
    assert y.columns["y"].tolist() == [2, 1, 0]
    np.testing.assert_array_equal(x.columns["x"], np.eye(3))
