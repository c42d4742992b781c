"""Edges, features and labels in ``.npy`` files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from tests.stream.readers.collected import edges_of, open_graph, rows_of


def saved(place: Path, array: object, name: str = "edges.npy") -> Path:
    np.save(place / name, np.asarray(array))
    return place / name


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=3, max_size=50),
    st.sampled_from(["i1", "<i4", ">i8", "u8"]),
    st.booleans(),
    st.sampled_from("CF"),
)
def test_either_shape_and_order(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[int, int]], dtype: str, turned: bool, order: str
) -> None:
    array = np.array(pairs, dtype)
    path = tmp_path_factory.mktemp("e") / "edges.npy"
    np.save(path, np.array(array.T if turned else array, order=order))
    reader = open_graph(path).edges
    assert (reader.expected, reader.id_kind, reader.roles) == (len(pairs), "integer", ())
    assert edges_of(reader).pairs == pairs
    assert reader.place(2) == f"{'column' if turned else 'row'} 2 of {path}"


def test_two_by_two_is_a_row_an_edge(tmp_path: Path) -> None:
    assert edges_of(open_graph(saved(tmp_path, [[0, 1], [2, 3]])).edges).pairs == [(0, 1), (2, 3)]


def test_no_edges(tmp_path: Path) -> None:
    for shape in ((0, 2), (2, 0)):
        assert edges_of(open_graph(saved(tmp_path, np.zeros(shape, int))).edges).pairs == []


def test_blocks_keep_to_the_memory(tmp_path: Path) -> None:
    array = np.arange(600_000, dtype=np.int64).reshape(2, -1)
    edges = edges_of(open_graph(saved(tmp_path, array), memory=1 << 20).edges)
    assert edges.blocks > 4
    assert edges.source == array[0].tolist()
    assert edges.destination == array[1].tolist()


def test_ids_as_text_when_asked(tmp_path: Path) -> None:
    assert edges_of(open_graph(saved(tmp_path, [[5, 60], [7, 5], [1, 2]]), id_kind="string").edges).pairs == [
        ("5", "60"),
        ("7", "5"),
        ("1", "2"),
    ]


def test_ids_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, np.array([[1, 2], [3, 2**63], [4, 5]], np.uint64))
    with pytest.raises(InputError, match=rf"below 2\*\*63, got {2**63} at row 1 of .*edges.npy\. Pass --ids string"):
        edges_of(open_graph(path).edges)
    assert edges_of(open_graph(path, id_kind="string").edges).pairs[1] == ("3", str(2**63))


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.ones((3, 2)), r"^Expected whole numbers \(node ids\) in .*edges.npy, got float64\. Save it as int64\.$"),
        (np.ones((3, 2), bool), "got bool"),
        (np.array([["a", "b"]]), "got <U1"),
        (np.ones((3, 5), int), r"shape E×2 or 2×E in .*, got 3×5"),
        (np.ones(6, int), "got 6"),
        (np.ones((2, 2, 2), int), "got 2×2×2"),
        (np.int64(4), "got a single number"),
    ],
)
def test_arrays_that_are_no_edges(array: np.ndarray, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        open_graph(saved(tmp_path, array))


def test_features_and_labels(tmp_path: Path) -> None:
    edges = saved(tmp_path, [[0, 1], [1, 2], [2, 0]])
    features = saved(tmp_path, np.asfortranarray(np.arange(6).reshape(3, 2)), "x.npy")
    labels = saved(tmp_path, np.array([1, -1, 0]), "y.npy")
    graph = open_graph(edges, features=str(features), labels=str(labels))
    x, y = map(rows_of, graph.tables)
    assert x.ids is None
    assert x.columns["x"].dtype == np.float32
    assert x.columns["x"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert y.columns["y"].tolist() == [1, -1, 0]


def test_forms_of_labels_and_features(tmp_path: Path) -> None:
    edges = saved(tmp_path, [[0, 1], [1, 2], [2, 0]])
    forms: list[tuple[str, np.ndarray, object]] = [
        ("labels", np.array([[1, 0], [0, 1]], np.uint8), [[1, 0], [0, 1]]),
        ("labels", np.array([[1], [0]]), [1, 0]),
        ("labels", np.array([0.5, np.inf]), [0.5, np.inf]),
        ("labels", np.array(["red", "blue"]), ["red", "blue"]),
        ("labels", np.array([b"red", "bläu".encode()]), ["red", "bläu"]),
        ("features", np.array([3, 4]), [[3], [4]]),
        ("features", np.array([[True], [False]]), [[1], [0]]),
        ("nodes", np.array([[1.5, 2], [3, 4]]), [[1.5, 2], [3, 4]]),
    ]
    for option, array, expected in forms:
        table = open_graph(edges, **{option: str(saved(tmp_path, array, "t.npy"))}).tables[0]
        (column,) = rows_of(table).columns.values()
        assert (column if isinstance(column, list) else column.tolist()) == expected
        assert (table.id_kind, table.defines_nodes, table.expected) == (None, False, 2)


@pytest.mark.parametrize(
    ("option", "array", "sentence"),
    [
        ("features", np.zeros((2, 2, 2)), r"numbers of shape N×F in .*t.npy, got float64 of shape 2×2×2"),
        ("features", np.array(["a"]), "got <U1 of shape 1"),
        ("labels", np.zeros((2, 2, 2)), "labels of shape N or N×C in .*, got 2×2×2"),
        ("labels", np.array([["a", "b"]]), "one label a node"),
        ("labels", np.array([b"\xff"]), "t.npy is truncated or damaged"),
        ("nodes", np.zeros(3), r"features of shape N×F in .*, got 3\. Labels go to --labels"),
    ],
)
def test_tables_that_are_refused(option: str, array: np.ndarray, sentence: str, tmp_path: Path) -> None:
    edges = saved(tmp_path, [[0, 1], [1, 2], [2, 0]])
    with pytest.raises(InputError, match=sentence):
        rows_of(open_graph(edges, **{option: str(saved(tmp_path, array, "t.npy"))}).tables[0])
