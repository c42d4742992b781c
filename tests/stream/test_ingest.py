from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from starling.core.errors import InputError
from starling.core.manifest import GraphManifest, Labels
from starling.stream.arrays import ArrayEdges, ArrayTable
from starling.stream.edge_counter import Rules
from starling.stream.id_index import IdIndex
from starling.stream.ingest import ImportOptions, ingest
from starling.stream.raw import CsrRows, RawGraph
from starling.stream.room import Room
from tests.support.slow_import import slow_clean

TRIANGLE = np.array([[0, 1], [1, 2], [2, 0]])


def imported(
    directory: Path, raw: RawGraph, room: int | None = None, **options: Any
) -> tuple[GraphManifest, dict[str, np.ndarray]]:
    """Import into a directory, optionally in very little room; returns the manifest and every file."""
    within = Room(room) if room else None
    with patch.object(Room, "within", lambda memory: within or Room(1 << 28)):
        manifest = ingest(raw, ImportOptions(**options), directory)
    assert not (directory / "scratch").exists()
    return manifest, {path.name.removesuffix(".npy"): np.load(path) for path in directory.iterdir()}


def graph(pairs: Any = TRIANGLE, *tables: ArrayTable, nodes: int | None = None, columns: Any = None, **rest: Any) -> RawGraph:
    return RawGraph(ArrayEdges(pairs, columns, block=2, name="e.csv"), tables, nodes, **rest)


def test_a_triangle_by_hand(tmp_path: Path) -> None:
    table = ArrayTable("n", {"x": np.eye(4), "y": np.array([0, 1, -1, 2]), "train": np.array([1, 0, 0, 0])})
    manifest, files = imported(tmp_path, graph(TRIANGLE, table, columns={"weight": np.array([1, 2, 3])}, origin={"a": 1}))
    assert (manifest.nodes, manifest.edges, manifest.directed, manifest.ids, manifest.isolated) == (4, 3, True, "position", 1)
    assert manifest.labels == Labels(kind="single", classes=3, labelled=3)
    assert manifest.splits == {"train": 1}
    assert manifest.origin == {"a": 1}
    assert manifest.counts.read == 3
    assert manifest.counts.duplicates == 0
    assert files["edges"].dtype == np.int32
    assert files["edges"].tolist() == TRIANGLE.tolist()
    assert files["weight.edge"].tolist() == [1, 2, 3]
    assert files["x"].tolist() == np.eye(4).tolist()
    assert sorted(files) == ["edges", "train", "weight.edge", "x", "y"]
    assert manifest.edge_tables["weight"].files == ("weight.edge.npy",)
    assert manifest.node_tables["x"].shape == (4, 4)


def test_undirected_adds_reverses_and_their_rows(tmp_path: Path) -> None:
    columns = {
        "weight": np.array([1, 2, 3]),
        "attr": np.array([[1, 2], [3, 4], [5, 6]]),
        "type": ["b", "a", "b"],
        "time": np.array([7, 8, 9]),
        "split": np.array([0, 1, 2]),
    }
    manifest, files = imported(
        tmp_path, graph([[0, 1], [2, 2], [1, 2]] @ np.eye(2, dtype=int), columns=columns), direction="undirected"
    )
    assert files["edges"].tolist() == [[0, 1], [1, 0], [2, 2], [1, 2], [2, 1]]
    assert files["weight.edge"].tolist() == [1, 1, 2, 3, 3]
    assert files["attr.edge"].tolist() == [[1, 2], [1, 2], [3, 4], [5, 6], [5, 6]]
    assert files["type.edge"].tolist() == [1, 1, 0, 1, 1]
    assert files["time.edge"].tolist() == [7, 7, 8, 9, 9]
    assert files["split.edge"].tolist() == [0, 0, 1, 2, 2]
    assert manifest.edge_types == ("a", "b")
    assert not manifest.directed
    assert manifest.counts.reverses_added == 2


def test_a_symmetric_file_stays_as_it_is(tmp_path: Path) -> None:
    both = np.concatenate([TRIANGLE, TRIANGLE[:, ::-1]])
    for number, direction in enumerate(("as-is", "undirected", "directed")):
        (tmp_path / str(number)).mkdir()
        manifest, files = imported(tmp_path / str(number), graph(both), direction=direction)
        assert files["edges"].tolist() == both.tolist()
        assert manifest.directed == (direction == "directed")


def test_an_input_that_calls_itself_undirected_gets_its_reverses(tmp_path: Path) -> None:
    for number, (direction, edges, directed) in enumerate((("as-is", 6, False), ("directed", 3, True))):
        (tmp_path / str(number)).mkdir()
        manifest, _ = imported(tmp_path / str(number), graph(TRIANGLE, directed=False), direction=direction)
        assert (manifest.edges, manifest.directed) == (edges, directed)


def test_dropping_copies_can_make_a_graph_symmetric(tmp_path: Path) -> None:
    pairs = np.array([[0, 1], [0, 1], [1, 0]])
    for number, (duplicates, directed) in enumerate((("keep", True), ("drop", False))):
        (tmp_path / str(number)).mkdir()
        assert imported(tmp_path / str(number), graph(pairs), duplicates=duplicates)[0].directed == directed


def test_string_ids_follow_the_node_table(tmp_path: Path) -> None:
    nodes = ArrayTable("nodes.csv", {"y": ["u", "v", "u"]}, ids=["c", "a", "b"], defines_nodes=True, block=2)
    extra = ArrayTable("x.npy", {"x": np.array([[1.0], [2.0], [3.0]])})
    joined = ArrayTable("time.csv", {"time": np.array([10, 20, 30])}, ids=["a", "b", "c"], block=2)
    manifest, files = imported(tmp_path, graph((["a", "b"], ["b", "a"]), nodes, extra, joined))
    assert (manifest.ids, manifest.nodes, manifest.isolated, manifest.directed) == ("string", 3, 1, False)
    assert files["edges"].tolist() == [[1, 2], [2, 1]]
    assert files["y"].tolist() == [0, 1, 0]
    assert files["x"].tolist() == [[1], [2], [3]]
    assert files["time"].tolist() == [30, 10, 20]
    assert IdIndex(tmp_path, "string", 3).user_ids(0, 3).to_pylist() == ["c", "a", "b"]
    assert manifest.labels is not None
    assert manifest.labels.names == ("u", "v")


edges_strategy = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 2)), min_size=1, max_size=50)


@settings(max_examples=60)
@given(
    edges_strategy,
    st.sampled_from(["as-is", "directed", "undirected"]),
    st.sampled_from(["keep", "drop"]),
    st.sampled_from(["keep", "drop"]),
    st.sampled_from(["position", "relabel", "string"]),
    st.sampled_from([None, 3_000]),
    st.booleans(),
)
def test_imports_are_those_of_the_slow_twin(
    edges: list[tuple[int, int, int]], direction: str, loops: str, repeats: str, ids: str, room: int | None, typed: bool
) -> None:
    if not typed:
        edges = [(u, v, 0) for u, v, _ in edges]
    array = np.array(edges)
    numbers: dict[int, int] = {}
    for u, v, _ in edges:
        numbers.setdefault(u, len(numbers))
        numbers.setdefault(v, len(numbers))
    names = {user: f"node {user}" for user in range(13)}
    pairs: Any = array[:, :2]
    if ids == "string":
        pairs = ([names[u] for u, _, _ in edges], [names[v] for _, v, _ in edges])
    columns = {"weight": np.arange(len(edges))} | ({"type": array[:, 2]} if typed else {})
    raw = RawGraph(ArrayEdges(pairs, columns, block=7), nodes=13 if ids == "position" else None)
    options = {"direction": direction, "self_loops": loops, "duplicates": repeats, "ids": "auto" if ids == "string" else ids}
    with tempfile.TemporaryDirectory() as name:
        manifest, files = imported(Path(name), raw, room, **options)
        dense = edges if ids == "position" else [(numbers[u], numbers[v], kind) for u, v, kind in edges]
        rules = Rules(loops == "drop", repeats == "drop", direction == "undirected")
        expected = slow_clean(dense, rules)
        nodes = 13 if ids == "position" else len(numbers)
        assert files["edges"].tolist() == [[u, v] for u, v, _ in expected.edges]
        assert files["weight.edge"].tolist() == expected.origin
        if typed:
            assert files["type.edge"].tolist() == [kind for *_, kind in expected.edges]
        assert (manifest.nodes, manifest.edges) == (nodes, len(expected.edges))
        assert manifest.isolated == nodes - len(expected.touched)
        assert manifest.directed == {"as-is": not expected.symmetric, "directed": True, "undirected": False}[direction]
        counts = manifest.counts
        assert (counts.self_loops, counts.duplicates) == (expected.self_loops, expected.duplicates)
        if ids != "position":
            users = IdIndex(Path(name), manifest.ids, nodes).user_ids(0, nodes)
            assert users.tolist() == list(numbers) if ids == "relabel" else [names[user] for user in numbers]


@pytest.mark.parametrize("kind", ["position", "integer", "string"])
def test_many_buckets_write_the_same_bytes_as_one(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(0)
    pairs = (rng.random((3_000, 2)) ** 3 * 400).astype(np.int64)
    order = rng.permutation(400)
    ids: Any = order if kind == "position" else order * 10**12 if kind == "integer" else [f"n{user}" for user in order]
    ends: Any = pairs if kind == "position" else pairs * 10**12
    if kind == "string":
        ends = ([f"n{u}" for u in pairs[:, 0]], [f"n{v}" for v in pairs[:, 1]])
    sparse = CsrRows(np.arange(401) * 2, rng.integers([0, 4], [4, 9], (400, 2)).reshape(-1), np.arange(800) / 7, 9)
    columns = {"x": np.arange(800.0).reshape(400, 2), "s": sparse, "time": order}
    sums = []
    for room in (None, 100_000, 6_000):
        directory = tmp_path / str(room)
        directory.mkdir()
        table = ArrayTable("t.csv", columns, ids=ids, defines_nodes=kind != "position", block=37)
        other = ArrayTable("u.csv", {"y": order % 5, "w": order}, ids=ids[::-1], block=41)
        edges = ArrayEdges(ends, {"weight": pairs[:, 0], "type": pairs[:, 1] % 3}, block=100)
        imported(
            directory,
            RawGraph(edges, (table, other)),
            room,
            direction="undirected",
            duplicates="drop",
            split=(50, 25, 25),
            seed=3,
        )
        sums.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()})
    assert sums[0] == sums[1] == sums[2]
    assert {"x.npy", "s.indptr.npy", "y.npy", "train.npy", "type.edge.npy"} <= set(sums[0])


@pytest.mark.parametrize(
    ("raw", "options", "message"),
    [
        (graph(np.array([[0, 1], [2, -3]])), {}, "Expected ids of at least 0, got -3 at edge 1 of e.csv. Pass --ids relabel"),
        (graph(TRIANGLE, nodes=2), {}, "Expected ids in [0, 2), got 2 at edge 1 of e.csv."),
        (graph(np.empty((0, 2), int)), {}, "The graph is empty"),
        (
            graph(TRIANGLE, ArrayTable("x.npy", {"x": np.ones((2, 1))})),
            {},
            "Expected 3 rows in x.npy, one for each node, got 2.",
        ),
        (
            graph(TRIANGLE, ArrayTable("x.npy", {"x": np.ones((4, 1))}), nodes=3),
            {},
            "Expected 3 rows in x.npy, one for each node, got 4.",
        ),
        (
            graph(TRIANGLE, ArrayTable("x.npy", {"x": np.array([1, np.nan, 1])})),
            {},
            "Expected finite features, got nan in column 0 at node 1 of x.npy.",
        ),
        (
            graph(TRIANGLE, ArrayTable("y.npy", {"y": np.array([0, 1, 9])})),
            {"classes": 7},
            "Expected labels in [0, 7), got 9 at node 2 of y.npy. Pass --classes 10",
        ),
        (
            graph(TRIANGLE, ArrayTable("m.npz", {"train": np.array([1, 1, 0]), "test": np.array([0, 1, 0])})),
            {},
            "Expected disjoint splits, got node 1 in both train and test.",
        ),
        (graph(TRIANGLE, ArrayTable("a", {"x": np.ones(3)}), ArrayTable("b", {"x": np.ones(3)})), {}, "Both a and b give 'x'."),
        (
            graph(TRIANGLE, ArrayTable("a", {"ids": np.ones(3)})),
            {},
            "The column 'ids' of a has a name that Starling needs itself.",
        ),
        (
            graph(TRIANGLE, ArrayTable("a", {"x": np.ones(2)}, ids=[0, 1])),
            {},
            "Node 2 is missing from a, which needs a row for every node.",
        ),
        (
            graph(TRIANGLE, ArrayTable("a", {"x": np.ones(4)}, ids=[0, 1, 2, 1])),
            {},
            "Node 1 stands twice in a, the second time at row 3 of a.",
        ),
        (
            graph(TRIANGLE, ArrayTable("a", {"x": np.ones(3)}, ids=[0, 1, -2])),
            {},
            "Id -2 at row 2 of a is in no edge.",
        ),
        (
            graph(TRIANGLE, ArrayTable("a", {"x": np.ones(3)}, ids=["0", "1", "2"])),
            {},
            "The ids of the edges are numbers, those of a are names.",
        ),
        (
            graph(TRIANGLE, ArrayTable("a", {}, ids=[0, 1], defines_nodes=True)),
            {},
            "Id 2 of an edge (edge 1 of e.csv) is missing from the node table a.",
        ),
        (
            graph(TRIANGLE, ArrayTable("a", {}, ids=[5, 5], defines_nodes=True)),
            {},
            "Id 5 stands twice in the node table, the second time at row 1 of a.",
        ),
        (
            graph(TRIANGLE, ArrayTable("a", {}, ids=[2, 1, 5], defines_nodes=True)),
            {},
            "Id 0 of an edge (edge 0 of e.csv) is missing",
        ),
        (
            graph((["p"], ["q"]), ArrayTable("a", {}, ids=["p", "r"], defines_nodes=True)),
            {},
            "Id 'q' of an edge (edge 0 of e.csv) is missing",
        ),
        (
            graph((["p"], ["q"]), ArrayTable("a", {"x": np.ones(3)}, ids=["p", "q", "r"])),
            {},
            "Id 'r' at row 2 of a is in no edge.",
        ),
        (graph((["p"], ["q"]), ArrayTable("a", {"x": np.ones(1)}, ids=["p"])), {}, "Node 'q' is missing from a"),
        (
            graph((["p"], ["q"]), ArrayTable("a", {"x": np.ones(2)})),
            {},
            "The rows of a are in node order, but the ids are names",
        ),
        (graph((["p"], ["q"]), nodes=5), {}, "Expected 5 nodes, got 2 different ids."),
        (graph((["p"], ["q"])), {"ids": "position"}, "The ids are names, which cannot be positions."),
        (graph(TRIANGLE), {"classes": 3}, "A number of classes is given, but no labels."),
        (
            graph(TRIANGLE, ArrayTable("m", {"val": np.ones(3)})),
            {"split": (60, 20, 20)},
            "The data has a split already ('val').",
        ),
        (
            graph(TRIANGLE, ArrayTable("p", {"x": np.ones(1)}, of_type="paper")),
            {},
            "p is for nodes of type 'paper', which is no known type.",
        ),
        (
            graph(TRIANGLE, columns={"weight": np.array([1, np.nan, 2])}),
            {},
            "Expected finite weights, got nan at edge 1 of e.csv.",
        ),
        (
            graph(TRIANGLE, columns={"type": ["a", "x", "a"]}, edge_types=("a", "b")),
            {},
            "Unknown edge type 'x' at edge 1 of e.csv.",
        ),
        (graph(TRIANGLE * 2**50), {"ids": "position"}, "are more nodes than fit the memory. Pass --ids relabel"),
        (graph((["p", None], ["q", "p"])), {}, "Expected an id everywhere, got none at edge 1 of e.csv."),
    ],
)
def test_bad_input_gets_one_clear_sentence(tmp_path: Path, raw: RawGraph, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        imported(tmp_path, raw, **options)
    assert message in str(caught.value)
    assert not (tmp_path / "scratch").exists()


@pytest.mark.parametrize("number", [1, 17, 2**20])
def test_absurdly_large_numbers_are_names(tmp_path: Path, number: int) -> None:
    pairs = np.array([[0, number], [number, 0]])
    manifest, files = imported(tmp_path, graph(pairs))
    assert manifest.ids == ("integer" if number == 2**20 else "position")
    assert manifest.nodes == (2 if number == 2**20 else number + 1)
    assert files["edges"].tolist() == ([[0, 1], [1, 0]] if number == 2**20 else pairs.tolist())


def test_numbers_are_names_where_a_table_of_all_nodes_does_not_count_them_through(tmp_path: Path) -> None:
    table = ArrayTable("t", {"time": np.array([5, 6, 7])}, ids=[30, 10, 20])
    manifest, files = imported(tmp_path, graph(np.array([[10, 20], [20, 30]]), table))
    assert (manifest.ids, manifest.nodes) == ("integer", 3)
    assert files["time"].tolist() == [6, 7, 5]
    assert files["ids"].tolist() == [10, 20, 30]


def test_a_given_number_of_nodes_makes_large_numbers_positions(tmp_path: Path) -> None:
    manifest, _ = imported(tmp_path, graph(np.array([[0, 2**20]]), nodes=2**20 + 1))
    assert (manifest.ids, manifest.nodes, manifest.isolated) == ("position", 2**20 + 1, 2**20 - 1)


def test_isolated_nodes_a_single_node_and_a_hub(tmp_path: Path) -> None:
    cases = {
        "isolated": (graph(np.empty((0, 2), int), nodes=5), (5, 0, 5)),
        "named": (graph(np.empty((0, 2), int), ArrayTable("n", {}, ids=["a", "b"], defines_nodes=True)), (2, 0, 2)),
        "single": (graph(np.array([[0, 0]])), (1, 1, 0)),
        "hub": (graph(np.stack([np.zeros(500, int), np.arange(500)], axis=1)), (500, 500, 0)),
    }
    for name, (raw, expected) in cases.items():
        (tmp_path / name).mkdir()
        manifest, files = imported(tmp_path / name, raw, 5_000)
        assert (manifest.nodes, manifest.edges, manifest.isolated) == expected
        assert files["edges"].shape == (expected[1], 2)


def test_a_node_with_only_a_dropped_loop_is_isolated(tmp_path: Path) -> None:
    manifest, files = imported(tmp_path, graph((["a", "b"], ["a", "c"])), self_loops="drop")
    assert (manifest.nodes, manifest.isolated, manifest.counts.self_loops_dropped) == (3, 1, 1)
    assert files["edges"].tolist() == [[1, 2]]


def test_a_random_split_is_drawn_among_the_labelled(tmp_path: Path) -> None:
    labels = np.where(np.arange(100) % 2, 1, -1)
    table = ArrayTable("y", {"y": labels})
    manifest, files = imported(tmp_path, graph(TRIANGLE, table), split=(60, 20, 10), seed=4)
    assert manifest.splits == {"train": 30, "val": 10, "test": 5}
    assert manifest.node_tables["val"].shape == (100,)
    total = files["train"].astype(int) + files["val"] + files["test"]
    assert total.max() == 1
    assert not total[labels == -1].any()


def test_options_are_strict() -> None:
    for wrong in (
        {"direction": "both"},
        {"split": (60, 50, 0)},
        {"split": (-1, 50, 0)},
        {"classes": 0},
        {"memory": 0},
        {"shuffle": 1},
    ):
        with pytest.raises(ValidationError):
            ImportOptions(**wrong)
