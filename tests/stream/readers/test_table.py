"""Node tables in text: ids, features, labels, splits, and the line of every mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.stream.raw import TableReader
from tests.stream.readers.collected import edges_of, open_graph, rows_of


def table(place: Path, content: str, option: str = "nodes", name: str = "nodes.csv", **options: object) -> TableReader:
    (place / "edges.csv").write_text("0,1\n1,2\n")
    (place / name).write_text(content)
    return open_graph(place / "edges.csv", **{option: str(place / name)}, **options).tables[0]


def test_a_node_table(tmp_path: Path) -> None:
    text = "id,age,label,split,type,time,tall\n5,30,red,train,user,1,true\n"
    text += "7,40.5,,Valid,item,2,false\n9,1,blue,unused,user,3,true\n"
    reader = table(tmp_path, text)
    assert (reader.id_kind, reader.defines_nodes, reader.expected) == ("integer", True, None)
    assert set(reader.roles) == {"x", "y", "train", "val", "test", "type", "time"}
    rows = rows_of(reader)
    assert rows.ids == [5, 7, 9]
    assert rows.columns["x"].dtype == np.float32
    assert rows.columns["x"].tolist() == [[30, 1], [40.5, 0], [1, 1]]
    assert rows.columns["y"] == ["red", None, "blue"]
    assert rows.columns["train"].tolist() == [True, False, False]
    assert rows.columns["val"].tolist() == [False, True, False]
    assert rows.columns["test"].tolist() == [False, False, False]
    assert rows.columns["type"] == ["user", "item", "user"]
    assert rows.columns["time"].tolist() == [1, 2, 3]
    assert reader.place(1) == f"line 3 of {tmp_path / 'nodes.csv'}"


def test_masks_as_columns(tmp_path: Path) -> None:
    rows = rows_of(table(tmp_path, "train_mask,val_mask,test,f\n1,0,false,0.5\n0,1,true,0.25\n"))
    assert rows.ids is None
    assert {role: rows.columns[role].tolist() for role in ("train", "val", "test")} == {
        "train": [True, False],
        "val": [False, True],
        "test": [False, True],
    }


def test_labels_of_every_form(tmp_path: Path) -> None:
    for text, expected in (
        ("id,label\n0,2\n1,\n", [2, -1]),
        ("id,label\n0,a\n1,b\n", ["a", "b"]),
        ("id,label\n0,true\n1,false\n", [1, 0]),
        ("0 3\n1 4\n", [3, 4]),
        ("3\n4\n", [3, 4]),
        ("id,a,b\n0,1,0\n1,0,0\n", [[1, 0], [0, 0]]),
    ):
        labels = rows_of(table(tmp_path, text, "labels")).columns["y"]
        assert (labels if isinstance(labels, list) else labels.tolist()) == expected
    real = rows_of(table(tmp_path, "id,label\n0,0.5\n1,\n", "labels")).columns["y"]
    assert real[0] == 0.5
    assert np.isnan(real[1])


def test_features_with_and_without_ids(tmp_path: Path) -> None:
    plain = table(tmp_path, "1 2.5\n3 4\n", "features", "x.txt")
    assert (plain.id_kind, plain.defines_nodes) == (None, False)
    assert rows_of(plain).columns["x"].tolist() == [[1, 2.5], [3, 4]]
    keyed = rows_of(table(tmp_path, "node,a\n4,1\n5,2\n", "features"))
    assert (keyed.ids, keyed.columns["x"].tolist()) == ([4, 5], [[1], [2]])


def test_columns_as_asked(tmp_path: Path) -> None:
    text = "31 0 1 Theory\n32 1 1 Systems\n"
    columns = {"nodes.id": "0", "nodes.label": "3"}
    rows = rows_of(table(tmp_path, text, name="cora.content", columns=columns))
    assert (rows.ids, rows.columns["x"].tolist(), rows.columns["y"]) == ([31, 32], [[0, 1], [1, 1]], ["Theory", "Systems"])


def test_text_ids_anywhere_make_all_ids_text(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("0,1\n")
    (tmp_path / "nodes.csv").write_text("id,f\nx,1\n0,2\n1,3\n")
    graph = open_graph(tmp_path / "edges.csv", nodes=str(tmp_path / "nodes.csv"))
    assert edges_of(graph.edges).pairs == [("0", "1")]
    assert rows_of(graph.tables[0]).ids == ["x", "0", "1"]
    with pytest.raises(InputError, match=r"a whole number in column 'id', got 'x' at line 2 of .*nodes\.csv"):
        open_graph(tmp_path / "edges.csv", nodes=str(tmp_path / "nodes.csv"), id_kind="integer")


BAD = {
    "id,a\n0,1\n1,\n": r"^Expected a number in column 'a', got an empty cell at line 3 of .*nodes.csv\.$",
    "id,a\n0,1\n1,x\n": r"^Expected a number in column 'a', got 'x' at line 3 of .*nodes.csv\. .*--column nodes.skip=a\.$",
    "id,a\n0,1\n1,2,3\n": r"^Expected 2 columns, got 3 at line 3 of",
    "id,a\n0,1\n,2\n": r"a node id in column 'id', got an empty cell at line 3",
    "id,split\n0,train\n1,tran\n": r"train, val or test in column 'split', got 'tran' at line 3 of .*Did you mean 'train'\?$",
    "id,train\n0,1\n1,maybe\n": r"true or false in column 'train', got 'maybe' at line 3",
    "id,train\n0,1\n1,2\n": r"true or false in column 'train', got '2' at line 3",
    "id,time\n0,\n": r"a number in column 'time', got an empty cell at line 2",
    "id,type\n0,a\n1,\n": r"a type in column 'type', got an empty cell at line 3",
    "id,train,split\n0,1,train\n": r"gives the split twice",
}


@pytest.mark.parametrize("content", BAD)
def test_bad_tables(content: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=BAD[content]) as caught:
        rows_of(table(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_classes_must_be_0_or_1_where_each_has_a_column(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"0 or 1 \(a column a class\) in column 'b', got 2 at line 3"):
        rows_of(table(tmp_path, "id,a,b\n0,1,0\n1,0,2\n", "labels"))


def test_wide_tables(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 10**9, (3, 5_000))
    text = "\n".join(",".join(map(str, row)) for row in values.tolist())
    rows = rows_of(table(tmp_path, text, "features"))
    np.testing.assert_array_equal(rows.columns["x"], values.astype(np.float32))


def test_a_line_longer_than_what_pyarrow_parses_at_once(tmp_path: Path) -> None:
    long = "a" * 1_500_000
    rows = rows_of(table(tmp_path, f"id,label\n0,x\n1,{long}\n2,y\n"))
    assert rows.columns["y"] == ["x", long, "y"]
