"""Parquet: any sizes of row groups, types as they come, wrong ones refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from tests.stream.readers.collected import edges_of, open_graph, rows_of


def written(place: Path, columns: dict[str, Any], name: str = "edges.parquet", **options: Any) -> Path:
    pq.write_table(pa.table(columns), place / name, **options)
    return place / name


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 9)), max_size=60),
    st.integers(1, 40),
    st.sampled_from(
        [pa.int8(), pa.uint64(), pa.int64(), pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
    ),
)
def test_edges(
    tmp_path_factory: pytest.TempPathFactory, edges: list[tuple[int, int, int]], group: int, kind: pa.DataType
) -> None:
    text = not pa.types.is_integer(kind)
    ends = [[str(edge[end]) if text else edge[end] for edge in edges] for end in (0, 1)]
    columns = {
        "w": pa.array([edge[2] / 2 for edge in edges], pa.float64()),
        "dst": pa.array(ends[1], pa.string() if text else kind).cast(kind),
        "src": pa.array(ends[0], pa.string() if text else kind).cast(kind),
    }
    reader = open_graph(written(tmp_path_factory.mktemp("p"), columns, row_group_size=group)).edges
    assert (reader.expected, reader.id_kind, reader.roles) == (len(edges), "string" if text else "integer", ("weight",))
    if edges:
        got = edges_of(reader)
        assert got.pairs == list(zip(*ends, strict=True))
        assert got.columns["weight"].tolist() == [edge[2] / 2 for edge in edges]


def test_batches_do_not_depend_on_row_groups(tmp_path: Path) -> None:
    ids = np.arange(200_000)
    path = written(tmp_path, {"u": ids, "v": ids[::-1]}, row_group_size=200_000)
    edges = edges_of(open_graph(path, memory=1 << 20).edges)
    assert edges.blocks > 2
    assert edges.source == ids.tolist()


def test_all_roles(tmp_path: Path) -> None:
    columns = {
        "u": [0, 1],
        "v": [1, 2],
        "type": pa.array(["a", "b"]).dictionary_encode(),
        "time": pa.array([1_000, 2_000], pa.timestamp("ms")),
        "p": [True, False],
        "q": [1, 2],
    }
    edges = edges_of(open_graph(written(tmp_path, columns)).edges)
    assert edges.columns["type"] == ["a", "b"]
    assert edges.columns["time"].tolist() == [1_000, 2_000]
    assert edges.columns["attr"].tolist() == [[1, 1], [0, 2]]
    days = written(tmp_path, {"u": [0], "v": [1], "time": pa.array([19_000], pa.date32())})
    assert edges_of(open_graph(days).edges).columns["time"].tolist() == [19_000]


def test_a_node_table_with_lists(tmp_path: Path) -> None:
    edges = written(tmp_path, {"u": [0, 1], "v": [1, 2]})
    nodes = {
        "id": [2, 0, 1],
        "features": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float64(), 2)),
        "label": pa.array([1, None, 0], pa.int32()),
        "train": [True, None, False],
    }
    (table,) = open_graph(edges, nodes=str(written(tmp_path, nodes, "n.parquet"))).tables
    rows = rows_of(table)
    assert (table.expected, table.defines_nodes, rows.ids) == (3, True, [2, 0, 1])
    assert rows.columns["x"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert rows.columns["y"].tolist() == [1, -1, 0]
    assert rows.columns["train"].tolist() == [True, False, False]


def test_lists_beside_numbers(tmp_path: Path) -> None:
    edges = written(tmp_path, {"u": [0, 1], "v": [1, 2]})
    nodes = {"id": [0, 1], "age": [30, 40], "embedding": [[1.0, 2.0], [3.0, 4.0]], "tall": [True, False]}
    (table,) = open_graph(edges, nodes=str(written(tmp_path, nodes, "n.parquet"))).tables
    assert rows_of(table).columns["x"].tolist() == [[30, 1, 2, 1], [40, 3, 4, 0]]


def test_lists_are_compared_across_batches(tmp_path: Path) -> None:
    edges = written(tmp_path, {"u": [0, 1], "v": [1, 2]})
    rows = [[1.0, 2.0]] * 100_000 + [[1.0]] * 100_000
    table = open_graph(edges, features=str(written(tmp_path, {"f": rows}, "x.parquet")), memory=1 << 20).tables[0]
    with pytest.raises(InputError, match="2 numbers in column 'f', got 1 at row 100000 of"):
        rows_of(table)


def test_labels_as_lists_and_names(tmp_path: Path) -> None:
    edges = written(tmp_path, {"u": [0, 1], "v": [1, 2]})
    several = written(tmp_path, {"id": [0, 1], "label": [[1, 0, 1], [0, 0, 0]]}, "y.parquet")
    table = open_graph(edges, labels=str(several)).tables[0]
    assert rows_of(table).columns["y"].tolist() == [[1, 0, 1], [0, 0, 0]]
    names = written(tmp_path, {"id": [0, 1], "label": ["red", None]}, "y.parquet")
    assert rows_of(open_graph(edges, labels=str(names)).tables[0]).columns["y"] == ["red", None]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "float ids": ({"src": [0.0], "dst": [1.0]}, r"text or whole numbers in column 'src' of .*, got the type double\.$"),
    "missing id": (
        {"src": [0, None], "dst": [1, 2]},
        r"^Expected a node id in column 'src', got an empty cell at row 1 of .*\.parquet\.$",
    ),
    "huge id": (
        {"src": pa.array([1, 2**63], pa.uint64()), "dst": pa.array([1, 2], pa.uint64())},
        rf"a whole number in column 'src', got '{2**63}' at row 1 .*--ids string",
    ),
    "text weight": ({"src": [0], "dst": [1], "weight": ["1"]}, "a number in column 'weight' of .*, got the type string"),
    "missing weight": ({"src": [0], "dst": [1], "weight": pa.array([None], pa.float32())}, "an empty cell at row 0"),
    "nested": (
        {"src": [0], "dst": [1], "s": [{"a": 1}]},
        r"a number in column 's' of .*, got the type struct.*--column skip=s",
    ),
    "fractional type": ({"src": [0], "dst": [1], "type": [0.5]}, "a whole number in column 'type' of .*, got the type double"),
    "bad text": (
        {"src": pa.array([b"a", b"\xff"], pa.binary()), "dst": pa.array([b"a", b"b"], pa.binary())},
        "Expected text in column 'src', got bytes that are not UTF-8 at row 1",
    ),
    "one column": ({"src": [0]}, "a source .column 'src'. and no destination"),
}


@pytest.mark.parametrize("name", WRONG)
def test_files_that_are_refused(name: str, tmp_path: Path) -> None:
    columns, sentence = WRONG[name]
    with pytest.raises(InputError, match=sentence) as caught:
        edges_of(open_graph(written(tmp_path, columns)).edges)
    assert "\n" not in str(caught.value)


def test_lists_of_unequal_length_are_refused(tmp_path: Path) -> None:
    edges = written(tmp_path, {"u": [0, 1], "v": [1, 2]})
    for lists, sentence in (
        ([[1.0, 2.0], [3.0]], "2 numbers in column 'f', got 1 at row 1"),
        ([[1.0, 2.0], [3.0, None]], "2 numbers in column 'f', got an empty one among them at row 1"),
        ([[1.0, 2.0], None], "a list of numbers in column 'f', got an empty cell at row 1"),
    ):
        table = open_graph(edges, features=str(written(tmp_path, {"f": lists}, "x.parquet"))).tables[0]
        with pytest.raises(InputError, match=sentence):
            rows_of(table)


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.table([pa.array([0]), pa.array([1])], names=["a", "a"])
    pq.write_table(table, tmp_path / "e.parquet")
    with pytest.raises(InputError, match="a name of its own"):
        open_graph(tmp_path / "e.parquet")
