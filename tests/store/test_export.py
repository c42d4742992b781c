"""Exported files: what they hold, and that importing them gives the same graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from starling.core.errors import InputError
from starling.store.export import ExportManifest, export_graph
from starling.store.graph import CsrTable, Graph, create_graph
from starling.stream.arrays import ArrayEdges, ArrayTable
from starling.stream.generators import DcsbmSettings, dcsbm
from starling.stream.ingest import ImportOptions
from starling.stream.raw import CsrRows, RawGraph
from starling.stream.readers import open_inputs
from tests.support.data import real_graph

MEMORY = 1 << 28
FORMS = ("csv", "parquet", "npz")


def small_graph(path: Path) -> Graph:
    """Four named nodes, the last without edges, with every kind of dense table."""
    edges = ArrayEdges(
        (["b", "a", "c"], ["a", "c", "b"]),
        {
            "weight": np.array([0.1, 2.0, 1e-7], np.float32),
            "attr": np.array([[1.5, 2.0], [3.0, 4.0], [5.0, 6.25]], np.float32),
            "type": pa.array(["likes", "hates", "likes"]),
            "time": np.array([5, 2**60 + 1, 7]),
            "split": np.array([0, 1, 2], np.uint8),
        },
    )
    nodes = ArrayTable(
        "nodes",
        {
            "x": np.array([[1 / 3, 2.0], [np.pi, 4.0], [5.0, 6.0], [7.0, 1e30]], np.float32),
            "y": np.array([1, -1, 0, 1]),
            "train": np.array([True, False, False, False]),
            "val": np.array([False, False, True, False]),
            "test": np.array([False, False, False, True]),
            "type": pa.array(["cat", "dog", "cat", "dog"]),
            "time": np.array([1.5, 2.5, 3.5, 4.5]),
        },
        ids=["b", "a", "c", "d"],
        defines_nodes=True,
    )
    return create_graph(RawGraph(edges, (nodes,)), path)


def imported(directory: Path, form: str, path: Path) -> Graph:
    """What `starling import` makes of exported files."""
    if form == "npz":
        return create_graph(open_inputs([str(directory / "graph.npz")], memory=MEMORY), path)
    beside = {
        option: str(directory / name)
        for option, name in (("features", "features.npz"), ("labels", "labels.csv"))
        if (directory / name).exists()
    }
    nodes = str(directory / f"nodes.{form}")
    return create_graph(open_inputs([str(directory / f"edges.{form}")], nodes=nodes, memory=MEMORY, **beside), path)


def same(one: Graph, other: Graph) -> None:
    """Two graphs hold the same nodes, edges, tables and ids."""
    assert (one.nodes, one.manifest.directed) == (other.nodes, other.manifest.directed)
    assert list(one.ids.user_ids(0, one.nodes)) == list(other.ids.user_ids(0, other.nodes))
    np.testing.assert_array_equal(one.edges, other.edges)
    for read, tables in (("node_table", "node_tables"), ("edge_table", "edge_tables")):
        assert set(getattr(one.manifest, tables)) == set(getattr(other.manifest, tables))
        for name in getattr(one.manifest, tables):
            np.testing.assert_array_equal(dense(getattr(one, read)(name)), dense(getattr(other, read)(name)), name)
    assert one.manifest.node_types == other.manifest.node_types
    assert one.manifest.edge_types == other.manifest.edge_types
    assert one.manifest.labels == other.manifest.labels


def dense(table: Any) -> np.ndarray:
    return table.dense(slice(None)) if isinstance(table, CsrTable) else np.asarray(table)


@pytest.mark.parametrize("form", FORMS)
def test_named_nodes_and_every_table_come_back(tmp_path: Path, form: Any) -> None:
    graph = small_graph(tmp_path / "graph")
    export_graph(graph, tmp_path / "out", form)
    same(imported(tmp_path / "out", form, tmp_path / "again"), graph)


@pytest.mark.parametrize("form", FORMS)
def test_numbered_nodes_sparse_features_and_several_labels_come_back(tmp_path: Path, form: Any) -> None:
    x = sp.random(6, 9, 0.4, "csr", dtype=np.float32, rng=np.random.default_rng(0))
    columns = {"x": CsrRows(x.indptr.astype(np.int64), x.indices, x.data, 9), "y": np.eye(6, 3, dtype=np.uint8)}
    pairs = np.array([[0, 1], [1, 0], [2, 4], [4, 2]])
    graph = create_graph(RawGraph(ArrayEdges(pairs), (ArrayTable("nodes", columns),), nodes=6), tmp_path / "graph")
    export_graph(graph, tmp_path / "out", form)
    same(imported(tmp_path / "out", form, tmp_path / "again"), graph)


@pytest.mark.parametrize("form", FORMS)
def test_large_ids_class_names_and_missing_real_labels_come_back(tmp_path: Path, form: Any) -> None:
    ids = np.array([2**40, 3, 2**41])
    edges = ArrayEdges((ids[[0, 1]], ids[[1, 2]]))
    for number, y in enumerate((pa.array(["yes", None, "no"]), np.array([0.5, np.nan, 2.25], np.float32))):
        raw = RawGraph(edges, (ArrayTable("nodes", {"y": y}, ids=ids, defines_nodes=True),))
        graph = create_graph(raw, tmp_path / f"graph{number}")
        export_graph(graph, tmp_path / f"out{number}", form)
        same(imported(tmp_path / f"out{number}", form, tmp_path / f"again{number}"), graph)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("y", [[0.0, 1.0, 2.0], [3e8, -1.0, 1e-20], [[0.5, 1.0], [2.0, 0.0], [1.0, 0.0]]])
def test_real_labels_stay_real_where_they_are_whole(y: list[Any], form: Any, tmp_path: Path) -> None:
    table = ArrayTable("nodes", {"y": np.array(y, np.float32)})
    graph = create_graph(RawGraph(ArrayEdges(np.array([[0, 1], [1, 2]])), (table,)), tmp_path / "graph")
    assert graph.manifest.labels is not None
    assert graph.manifest.labels.kind == "real"
    export_graph(graph, tmp_path / "out", form)
    same(imported(tmp_path / "out", form, tmp_path / "again"), graph)


@pytest.mark.parametrize("form", FORMS)
def test_a_graph_without_edges_comes_back(tmp_path: Path, form: Any) -> None:
    table = ArrayTable("nodes", {"x": np.eye(3, dtype=np.float32), "y": np.array([0, 1, 0])})
    graph = create_graph(RawGraph(ArrayEdges(np.empty((0, 2), np.int64)), (table,), nodes=3), tmp_path / "graph")
    export_graph(graph, tmp_path / "out", form)
    same(imported(tmp_path / "out", form, tmp_path / "again"), graph)


@pytest.mark.parametrize("form", FORMS)
def test_repeated_edges_and_loops_come_back(tmp_path: Path, form: Any) -> None:
    pairs = np.array([[0, 1], [0, 1], [1, 0], [2, 2]])
    graph = create_graph(RawGraph(ArrayEdges(pairs), nodes=3), tmp_path / "graph")
    export_graph(graph, tmp_path / "out", form)
    same(imported(tmp_path / "out", form, tmp_path / "again"), graph)


def test_names_that_look_like_numbers_are_not_written(tmp_path: Path) -> None:
    nodes = ArrayTable("nodes", {"y": pa.array(["1.0", "0.0"]), "type": pa.array(["7", "x"])})
    graph = create_graph(RawGraph(ArrayEdges(np.array([[0, 1]])), (nodes,), 2), tmp_path / "graph")
    assert graph.manifest.labels is not None
    assert graph.manifest.labels.names == ("0.0", "1.0")
    export_graph(graph, tmp_path / "out", "csv")
    assert (tmp_path / "out" / "nodes.csv").read_text() == '"id","type","y"\n0,0,1\n1,1,0\n'


@pytest.mark.parametrize("name", ["cora", "hgb_acm", "bitcoin_otc"])
def test_real_graphs_come_back(tmp_path: Path, name: str) -> None:
    graph = create_graph(open_inputs([str(real_graph(name))], memory=MEMORY), tmp_path / "graph")
    export_graph(graph, tmp_path / "out", "npz")
    same(imported(tmp_path / "out", "npz", tmp_path / "again"), graph)


def test_csv_as_a_person_reads_it(tmp_path: Path) -> None:
    files = export_graph(small_graph(tmp_path / "graph"), tmp_path / "out", "csv")
    assert [file.name for file in files] == ["edges.csv", "nodes.csv"]
    assert (tmp_path / "out" / "edges.csv").read_text().splitlines() == [
        '"source","destination","weight","type","time","split","attr_0","attr_1"',
        '"b","a",0.1,"likes",5,0,1.5,2',
        '"a","c",2,"hates",1152921504606846977,1,3,4',
        '"c","b",1e-7,"likes",7,2,5,6.25',
    ]
    assert (tmp_path / "out" / "nodes.csv").read_text().splitlines()[:3] == [
        '"id","type","time","y","train","val","test","x_0","x_1"',
        '"b","cat",1.5,1,true,false,false,0.33333334,2',
        '"a","dog",2.5,,false,false,false,3.1415927,4',
    ]


def test_parquet_keeps_matrices_together(tmp_path: Path) -> None:
    export_graph(small_graph(tmp_path / "graph"), tmp_path / "out", "parquet")
    nodes = pq.read_table(tmp_path / "out" / "nodes.parquet")
    assert nodes.column("x").to_pylist()[2] == [5.0, 6.0]
    assert nodes.column("y").to_pylist() == [1, None, 0, 1]
    assert pq.read_table(tmp_path / "out" / "edges.parquet").column("source").to_pylist() == ["b", "a", "c"]


def test_npz_has_the_keys_of_the_layout(tmp_path: Path) -> None:
    masks = np.array([[True, False], [False, True], [True, True]])
    raw = RawGraph(
        ArrayEdges(np.array([[0, 1], [2, 1]])),
        (ArrayTable("nodes", {"y": np.array([0, 1, 1]), "train": masks[:, 0], "train_masks": masks, "mood": np.ones(3)}),),
        nodes=3,
        origin={"name": "tiny", "licence": "CC0"},
    )
    files = export_graph(create_graph(raw, tmp_path / "graph"), tmp_path / "out", "npz")
    assert [file.name for file in files] == ["graph.npz", "mood.npy"]
    with np.load(tmp_path / "out" / "graph.npz") as stored:
        assert set(stored) == {"edge_index", "num_nodes", "y", "train_mask", "train_masks", "meta"}
        assert stored["edge_index"].tolist() == [[0, 2], [1, 1]]
        assert int(stored["num_nodes"]) == 3
        assert stored["train_masks"].tolist() == masks.T.tolist()
        assert json.loads(str(stored["meta"]))["licence"] == "CC0"


def test_tables_of_other_names_are_copied(tmp_path: Path) -> None:
    sparse = CsrRows(np.array([0, 1]), np.array([2]), np.array([7.0], np.float32), 3)
    tables = (
        ArrayTable("all", {"type": pa.array(["p", "q"]), "a/b": np.array([5, 6])}),
        ArrayTable("p", {"x": sparse}, of_type="p"),
        ArrayTable("q", {"x": np.array([[1.5]], np.float32)}, of_type="q"),
    )
    graph = create_graph(RawGraph(ArrayEdges(np.array([[0, 1]])), tables, 2), tmp_path / "graph")
    files = {file.name: file for file in export_graph(graph, tmp_path / "out", "parquet")}
    assert len(files) == 5  # edges, nodes, and three tables
    assert np.load(files["x@q.npy"]).tolist() == [[1.5]]
    assert sp.load_npz(files["x@p.npz"]).toarray().tolist() == [[0, 0, 7]]
    (other,) = set(files) - {"edges.parquet", "nodes.parquet", "x@q.npy", "x@p.npz"}
    assert np.load(files[other]).tolist() == [5, 6]


def test_blocks_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    pairs, x = rng.integers(0, 50, (700, 2)), rng.random((50, 3), np.float32)
    graph = create_graph(RawGraph(ArrayEdges(pairs), (ArrayTable("n", {"x": x}),), nodes=50), tmp_path / "graph")
    files = {}
    for block in (1 << 23, 100):
        monkeypatch.setattr("starling.store.export_tables._BLOCK_BYTES", block)
        monkeypatch.setattr("starling.store.export_npz._BLOCK_BYTES", block)
        for form in ("csv", "npz"):
            for file in export_graph(graph, tmp_path / f"{form}{block}", form):  # type: ignore[arg-type]
                files.setdefault(file.name, []).append(file.read_bytes())
    assert all(one == other for one, other in files.values())


def test_overwriting_needs_force_and_the_manifest_is_checked(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "graph")
    export_graph(graph, tmp_path / "out", "csv")
    with pytest.raises(InputError, match="exists already"):
        export_graph(graph, tmp_path / "out", "npz")
    export_graph(graph, tmp_path / "out", "npz", force=True)
    manifest = ExportManifest.read(tmp_path / "out")
    manifest.verify(tmp_path / "out")
    assert (manifest.form, manifest.nodes, manifest.edges, manifest.directed) == ("npz", 4, 3, True)


def test_a_generated_graph_is_the_same_after_a_round_trip(tmp_path: Path) -> None:
    options = ImportOptions(duplicates="drop", self_loops="drop")
    graph = create_graph(dcsbm(DcsbmSettings(nodes=500, edges=6000, classes=4, features=5)), tmp_path / "graph", options)
    for form in FORMS:
        export_graph(graph, tmp_path / form, form)  # type: ignore[arg-type]
        same(imported(tmp_path / form, form, tmp_path / f"again-{form}"), graph)
