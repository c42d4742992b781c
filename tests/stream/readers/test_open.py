"""The front door: formats by name, several files, options that must mean something, and one table in every format."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from tests.stream.readers.collected import edges_of, open_graph, rows_of

floats = st.floats(-1e6, 1e6, width=32)
words = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=5).filter(
    lambda word: word[0] not in "#%/" and not word[0].isdigit()
)
integers = st.integers(0, 2**62)


@st.composite
def edge_tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(1, 30))
    ids = draw(st.sampled_from([integers, words]))

    def column(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=rows, max_size=rows))

    return pa.table(
        {
            "source": column(ids),
            "target": column(ids),
            "weight": pa.array(column(floats), pa.float32()),
            "time": column(st.integers(-(2**62), 2**62)),
            "type": column(words),
            "p": pa.array(column(floats), pa.float32()),
            "q": pa.array(column(floats), pa.float32()),
        }
    )


def write(table: pa.Table, place: Path) -> list[Path]:
    """The table in every format of columns."""
    csv, tsv, packed, parquet = (place / name for name in ("e.csv", "e.tsv", "e.csv.gz", "e.parquet"))
    pacsv.write_csv(table, csv)
    packed.write_bytes(gzip.compress(csv.read_bytes()))
    pq.write_table(table, parquet, row_group_size=7)
    lines = ["\t".join(table.column_names)]
    lines += ["\t".join(str(cell) for cell in row.values()) for row in table.to_pylist()]
    tsv.write_text("# tabs\n" + "\n".join(lines))
    return [csv, tsv, packed, parquet]


@settings(max_examples=40, deadline=None)
@given(edge_tables())
def test_one_table_in_every_format(tmp_path_factory: pytest.TempPathFactory, table: pa.Table) -> None:
    for path in write(table, tmp_path_factory.mktemp("f")):
        reader = open_graph(path).edges
        assert reader.roles == ("weight", "attr", "type", "time")
        edges = edges_of(reader)
        assert edges.source == table["source"].to_pylist()
        assert edges.destination == table["target"].to_pylist()
        np.testing.assert_array_equal(edges.columns["weight"], table["weight"].to_numpy())
        np.testing.assert_array_equal(edges.columns["time"], table["time"].to_numpy())
        assert edges.columns["type"] == table["type"].to_pylist()
        np.testing.assert_array_equal(edges.columns["attr"], np.stack([table["p"].to_numpy(), table["q"].to_numpy()], axis=1))


def test_several_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("src,dst\n0,1\n1,2\n")
    second.write_text("#\n5,6\n")
    reader = open_graph(first, second, first).edges
    assert edges_of(reader).pairs == [(0, 1), (1, 2), (5, 6), (0, 1), (1, 2)]
    assert reader.place(1) == f"line 3 of {first}"
    assert reader.place(2) == f"line 2 of {second}"
    assert reader.place(4) == f"line 3 of {first}"
    assert reader.total_bytes == reader.bytes_read == 2 * first.stat().st_size + second.stat().st_size


def test_several_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", [[0, 1], [1, 2], [2, 3]])
    np.save(tmp_path / "b.npy", [[7, 8, 9], [9, 8, 7]])
    reader = open_graph(tmp_path / "a.npy", tmp_path / "b.npy").edges
    assert reader.expected == 6
    assert edges_of(reader).pairs == [(0, 1), (1, 2), (2, 3), (7, 9), (8, 8), (9, 7)]
    assert reader.place(4) == f"column 1 of {tmp_path / 'b.npy'}"


def test_ids_of_several_files_are_of_one_kind(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0,1\n")
    (tmp_path / "b.csv").write_text("x,y\n")
    assert edges_of(open_graph(tmp_path / "a.csv", tmp_path / "b.csv").edges).pairs == [("0", "1"), ("x", "y")]


def test_files_must_have_the_same_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("src,dst,w\n0,1,2\n")
    (tmp_path / "b.csv").write_text("src,dst,p,q\n0,1,2,3\n")
    with pytest.raises(InputError, match=r"same columns in .*b.csv as in .*a.csv \(.*weight\), got .*attr of 2"):
        open_graph(tmp_path / "a.csv", tmp_path / "b.csv")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    np.savez(tmp_path / "g.npz", edge_index=np.array([[0, 1, 2], [1, 2, 0]]), num_nodes=np.int64(3), x=np.eye(3))
    np.save(tmp_path / "e.npy", [[0, 1], [1, 2], [2, 0]])
    np.save(tmp_path / "x.npy", np.eye(3))
    (tmp_path / "e.csv").write_text("0,1\n")
    (tmp_path / "n.csv").write_text("id,label\n0,1\n1,0\n")
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "noise.csv.gz").write_bytes(b"0,1\n")
    (tmp_path / "noise.npy").write_bytes(b"nothing like an array" * 10)
    (tmp_path / "noise.npz").write_bytes(b"nothing like an archive" * 10)
    (tmp_path / "noise.parquet").write_bytes(b"nothing like a table" * 10)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "options", "sentence"),
    [
        ([], {}, "at least one edge file"),
        (["missing.csv"], {}, r"missing.csv does not exist\. Check the name"),
        (["folder.csv"], {}, "Expected a file, got the folder .*folder.csv"),
        (["pipe.csv"], {}, r"pipe.csv is a pipe or a device, .* Pass it as standard input: - < .*pipe.csv"),
        (["empty.npy"], {}, "empty.npy is empty: it has no bytes"),
        (["e.docx"], {}, r"e.docx has \.docx, which is no format Starling reads\. Known: \.npy \.npz .*\.csv"),
        (["e"], {}, "has no ending"),
        (["e.npy.gz"], {}, r"has \.npy\.gz, which is no format"),
        (["noise.csv.gz"], {}, "is not a gzip file, though its name ends in .gz"),
        (["noise.npy"], {}, r"noise.npy is not a readable \.npy file"),
        (["noise.npz"], {}, "noise.npz is truncated or damaged .*zip file"),
        (["noise.parquet"], {}, "noise.parquet is truncated or damaged .*[Pp]arquet"),
        (["e.csv", "e.npy"], {}, "edge files of one format"),
        (["g.npz", "g.npz"], {}, "is a whole graph, which cannot be read together"),
        (["g.npz"], {"num_nodes": 5}, "has 3 nodes, --num-nodes says 5"),
        (["g.npz"], {"features": "x.npy"}, "Features stand both in .*g.npz and in .*x.npy"),
        (["e.npy"], {"header": True}, "none of the files is text"),
        (["e.npy"], {"delimiter": ","}, "none of the files is text"),
        (["e.npy"], {"columns": {"weight": "w"}}, "e.npy has no columns to name"),
        (["e.npy"], {"features": "x.npy", "columns": {"features.id": "0"}}, "x.npy has no columns to name"),
        (["e.csv"], {"columns": {"nodes.id": "0"}}, "--column nodes.id is about a table that was not given"),
        (["e.csv"], {"columns": {"node.id": "0"}}, "no table 'node' .*Did you mean 'nodes'"),
        (["e.csv"], {"nodes": "missing.csv"}, "missing.csv does not exist"),
        (["e.csv"], {"nodes": "n.csv", "labels": "n.csv"}, "Labels stand both in"),
    ],
)
def test_what_is_refused(files: list[str], options: dict[str, object], sentence: str, place: Path) -> None:
    named = {
        key: str(place / str(value)) if key in ("nodes", "features", "labels") else value for key, value in options.items()
    }
    with pytest.raises(InputError, match=sentence) as caught:
        open_graph(*(place / name for name in files), **named)
    assert "\n" not in str(caught.value)


def test_how_many_nodes(place: Path) -> None:
    assert open_graph(place / "e.npy").nodes is None
    assert open_graph(place / "e.npy", num_nodes=9).nodes == 9
    assert open_graph(place / "e.npy", features=str(place / "x.npy")).nodes is None  # rows and ids are compared later
    assert open_graph(place / "g.npz").nodes == 3
    assert open_graph(place / "e.csv", nodes=str(place / "n.csv")).nodes is None  # its ids tell, when they are read


def test_all_tables_of_a_graph(place: Path) -> None:
    graph = open_graph(place / "e.csv", nodes=str(place / "n.csv"), features=str(place / "x.npy"))
    assert [table.roles for table in graph.tables] == [("y",), ("x",)]
    assert rows_of(graph.tables[0]).columns["y"].tolist() == [1, 0]


def test_an_unreadable_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"e.csv cannot be read: Permission denied\."):
        open_graph(place / "e.csv")
