"""Text: delimiters, headers, comments, gzip, kinds of columns, and the line of every mistake."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.stream.readers.lines import LineBlock
from starling.stream.readers.text import _Places
from tests.stream.readers.collected import edges_of, open_graph


def written(place: Path, content: str | bytes, name: str = "edges.csv") -> Path:
    path = place / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("0,1\n2,3\n", "edges.csv"),
        ("0\t1\n2\t3", "edges.tsv"),
        ("  0   1 \n\n2 \t 3\n", "edges.txt"),
        ("# SNAP\n# FromNodeId\tToNodeId\n0\t1\n2\t3\n", "edges.txt"),
        ("% konect\n0 1\n// c\n2 3\n", "edges.edgelist"),
        ("source,target\r\n0,1\r\n2,3\r\n", "edges.csv"),
        ("a;b\n0; 1\n2 ;3\n", "edges.csv"),
        ('"src","dst"\n"0","1"\n"2","3"\n', "edges.csv"),
        ("\ufeffsrc,dst\n0,1\n2,3\n", "edges.csv"),
        ("0,1\r2,3\r", "edges.csv"),
    ],
)
def test_shapes_of_text(content: str, name: str, tmp_path: Path) -> None:
    reader = open_graph(written(tmp_path, content, name)).edges
    assert reader.id_kind == "integer"
    assert edges_of(reader).pairs == [(0, 1), (2, 3)]
    packed = written(tmp_path, gzip.compress(content.encode()), name + ".gz")
    assert edges_of(open_graph(packed).edges).pairs == [(0, 1), (2, 3)]


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress(b"0,1\n") + gzip.compress(b"1,2\n"))
    reader = open_graph(path).edges
    assert edges_of(reader).pairs == [(0, 1), (1, 2)]
    assert reader.total_bytes == reader.bytes_read == path.stat().st_size


def test_text_ids(tmp_path: Path) -> None:
    reader = open_graph(written(tmp_path, 'ann, bob\n"x, y" ,7\nünï,"""q"""\n')).edges
    assert reader.id_kind == "string"
    assert edges_of(reader).pairs == [("ann", "bob"), ("x, y", "7"), ("ünï", '"q"')]
    tabs = open_graph(written(tmp_path, '"a\tb c\n', "e.tsv")).edges
    assert edges_of(tabs).pairs == [('"a', "b c")]  # a quote is a letter in tab-separated text


def test_numbers_read_as_text_when_asked(tmp_path: Path) -> None:
    path = written(tmp_path, "007,1\n8,9\n")
    assert edges_of(open_graph(path, id_kind="string").edges).pairs == [("007", "1"), ("8", "9")]
    assert edges_of(open_graph(path).edges).pairs == [(7, 1), (8, 9)]


def test_all_roles(tmp_path: Path) -> None:
    text = "u,v,w,rel,time,split,p,q\n0,1,0.5,likes,10,train,1,2\n1,2,2,hates,20,valid,3,4.5\n"
    text += "2,0,1e3,likes,9007199254740993,test,5,6\n"
    reader = open_graph(written(tmp_path, text)).edges
    assert reader.roles == ("weight", "attr", "type", "time", "split")
    edges = edges_of(reader)
    assert edges.columns["weight"].tolist() == [0.5, 2.0, 1000.0]
    assert edges.columns["weight"].dtype == edges.columns["attr"].dtype == np.float32
    assert edges.columns["attr"].tolist() == [[1, 2], [3, 4.5], [5, 6]]
    assert edges.columns["type"] == ["likes", "hates", "likes"]
    assert edges.columns["time"].tolist() == [10, 20, 9007199254740993]  # not what a float would make of it
    assert edges.columns["split"].tolist() == [0, 1, 2]


def test_types_and_splits_by_number_and_times_with_fractions(tmp_path: Path) -> None:
    edges = edges_of(open_graph(written(tmp_path, "src,dst,type,ts,split\n0,1,3,0,2\n1,2,0,0.5,0\n")).edges)
    assert edges.columns["type"].tolist() == [3, 0]
    assert edges.columns["time"].tolist() == [0, 0.5]
    assert edges.columns["split"].tolist() == [2, 0]


def test_a_third_column_without_a_name_is_a_weight(tmp_path: Path) -> None:
    edges = edges_of(open_graph(written(tmp_path, "0 1 0.25\n1 2 4\n", "e.txt")).edges)
    assert edges.columns["weight"].tolist() == [0.25, 4.0]
    with pytest.raises(InputError, match=r"a number in column 2 \(counted from 0\), got 'likes' at line 1 .*--column type=2"):
        open_graph(written(tmp_path, "0 1 likes\n", "e.txt"))


def test_header_and_delimiter_as_told(tmp_path: Path) -> None:
    path = written(tmp_path, "0:1\n2:3\n", "e.txt")
    assert edges_of(open_graph(path, delimiter=":").edges).pairs == [(0, 1), (2, 3)]
    assert edges_of(open_graph(path, delimiter=":", header=True).edges).pairs == [(2, 3)]
    names = written(tmp_path, "source,target\nann,bob\n")
    assert edges_of(open_graph(names, header=False).edges).pairs == [("source", "target"), ("ann", "bob")]


def test_a_header_and_nothing_else(tmp_path: Path) -> None:
    assert edges_of(open_graph(written(tmp_path, "src,dst\n")).edges).pairs == []


BAD = {
    "0,1\n1,2\n2,3,9\n": r"^Expected 2 columns, got 3 at line 3 of .*edges.csv: '2,3,9'\. Give every line the same columns\.$",
    "0,1\n#\n\n2\n": r"^Expected 2 columns, got 1 at line 4 of",
    "src,dst,weight\n0,1,0.5\n# c\n1,2,abc\n": r"^Expected a number in column 'weight', got 'abc' at line 4 of .*edges.csv\.",
    "src,dst,w\n0,1,NA\n": r"a number in column 'w', got 'NA' at line 2",
    "src,dst,w\n0,1,1\n1,2,\n": r"^Expected a number in column 'w', got an empty cell at line 3 of .*edges.csv\.$",
    "0,1\n,2\n": r"^Expected a node id in column 0 \(counted from 0\), got an empty cell at line 2 of",
    "a,b\na,\n": r"^Expected a node id in column 1 .* got an empty cell at line 2",
    "0,1\n1,2\nann,3\n": r"a whole number in column 0 .* got 'ann' at line 3 of .*if node ids are text, pass --ids string\.$",
    "0,1\n1.5,2\n": r"a whole number in column 0 .* got '1.5' at line 2",
    "0,1\n99999999999999999999,2\n": r"got '99999999999999999999' at line 2 .*--ids string",
    "src,dst,time\n0,1,noon\n": r"a number in column 'time', got 'noon' at line 2",
    "src,dst,type\n0,1,1.5\n": r"a whole number in column 'type', got '1.5' at line 2",
    "src,dst,split\n0,1,tain\n": r"train, val or test \(or 0, 1, 2\) in column 'split', got 'tain' at line 2",
    "src,dst,split\n0,1,7\n": r"got '7' at line 2",
    "src,dst,a\n0,1,x\n": r"a number in column 'a', got 'x' at line 2 .*--column type=a, or leave it out with --column skip=a",
    '0,1\n2,"3\n4,5\n': r"every quote to be closed on its line, got an open one at line 2 of .*edges.csv",
    "0\n1\n": r"at least 2 columns",
    "# only\n\n% comments\n": r"has no rows, only comments or blank lines",
    b"0,1\n\xff\xfe,2\n": r"is not UTF-8 text at line 2\. Save it as UTF-8",
    b"a,b\nc,\xff\n": r"is not UTF-8 text at line 2",
}


@pytest.mark.parametrize("content", BAD)
def test_bad_text(content: str | bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=BAD[content]) as caught:
        edges_of(open_graph(written(tmp_path, content)).edges)
    assert "\n" not in str(caught.value)


def test_a_mistake_far_into_a_file_is_named_by_its_line(tmp_path: Path) -> None:
    lines = [f"{i},{i + 1}" for i in range(200_000)]
    lines[150_000] = "150000,x1"
    path = written(tmp_path, "# head\n" + "\n".join(lines))
    with pytest.raises(InputError, match=r"got 'x1' at line 150002 of"):
        edges_of(open_graph(path, memory=1 << 20).edges)
    lines[150_000] = "150000"
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"got 1 at line 150001 of"):
        edges_of(open_graph(path, memory=1 << 20).edges)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["1,2", "#c", "", "30,40"]), min_size=1, max_size=400))
def test_every_edge_knows_its_line(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    lines = ["0,0", *lines]
    reader = open_graph(written(tmp_path_factory.mktemp("t"), "\n".join(lines))).edges
    count = len(edges_of(reader).pairs)
    numbers = [number for number, line in enumerate(lines, start=1) if line[:1].isdigit()]
    assert [int(reader.place(edge).split()[1]) for edge in range(count)] == numbers


def test_places_of_very_many_dropped_lines_are_bounded() -> None:
    places = _Places()
    for number in range(5):
        dropped = np.arange(400_000, dtype=np.int64)
        places.add(number, LineBlock(None, 1, 4, 1 + number * 400_001, dropped))
    assert places.line(4) == f"line {5 * 400_001}"
    assert places.line(0) == "line 1 or soon after"
    assert sum(len(block.dropped) for block in places._blocks) <= 1 << 20


def test_memory_sets_the_blocks_and_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "".join(f"{i},{i * 7}\n" for i in range(120_000)))
    small, large = edges_of(open_graph(path, memory=1 << 20).edges), edges_of(open_graph(path).edges)
    assert small.blocks > large.blocks
    assert small.pairs == large.pairs == [(i, i * 7) for i in range(120_000)]
