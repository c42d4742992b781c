"""The verbs as scripts use them: one JSON object on standard output, the promised keys, the right counts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from starling.cli import demo
from starling.cli.main import run
from tests.support.command import starling
from tests.support.data import DATA, real_graph

INSPECT_KEYS = {"kind", "nodes", "edges", "directed", "features", "classes", "splits"}


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    assert run([*map(str, arguments), "--json"]) == 0, capsys.readouterr().err
    result: dict[str, object] = json.loads(capsys.readouterr().out)
    return result


def test_cora(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported = run_json(capsys, "import", real_graph("cora"), "-o", tmp_path / "g")
    assert imported["edges_read"] == 10556
    shown = run_json(capsys, "inspect", tmp_path / "g")
    assert set(shown) >= INSPECT_KEYS
    assert (shown["kind"], shown["nodes"], shown["edges"], shown["directed"]) == ("graph", 2708, 10556, False)
    assert (shown["features"], shown["classes"]) == (1433, 7)
    assert shown["splits"] == {"train": 140, "val": 500, "test": 1000}


@pytest.mark.parametrize("path", sorted(DATA.glob("*.npz")), ids=lambda path: path.stem)
def test_every_real_graph(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(path) as stored:
        meta = json.loads(str(stored["meta"]))
    run_json(capsys, "import", path, "-o", tmp_path / "g", "--quiet")
    shown = run_json(capsys, "inspect", tmp_path / "g", "--verify")
    assert shown["nodes"] == meta["num_nodes"]
    # A file that says it is undirected but stores each edge once gets the reverses it lacks.
    assert shown["edges"] == (meta["num_edges_stored"] if meta["directed"] else meta["num_edges_symmetrised"])
    assert meta["directed"] or not shown["directed"]
    assert shown["features"] == meta["num_features"]
    assert shown["classes"] == meta["num_classes"]
    assert shown["isolated"] == meta["isolated_nodes"]
    assert shown["self_loops"] == meta["self_loops"]


@pytest.mark.parametrize("name", ["email_enron", "web_notredame", "cora", "actor"])
def test_undirected_gives_the_published_count(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(real_graph(name)) as stored:
        meta = json.loads(str(stored["meta"]))
    flags = ("--undirected", "--duplicates", "drop", "-o", tmp_path / "g")
    imported = run_json(capsys, "import", real_graph(name), *flags)
    assert imported["edges"] == meta["num_edges_symmetrised"]
    assert imported["directed"] is False


def test_generate_twice_gives_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        sizes = ("--nodes", 3000, "--edges", 40000, "--classes", 5, "--features", 8, "--seed", 1)
        made = run_json(capsys, "generate", "dcsbm", *sizes, "-o", tmp_path / name)
        assert made["nodes"] == 3000
        assert made["classes"] == 5
        assert 30000 < int(str(made["edges"])) <= 40000
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "b").iterdir())
    assert all((tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes() for file in files)


def test_standard_input_and_string_ids(tmp_path: Path) -> None:
    done = starling(
        "import", "-", "--undirected", "-o", tmp_path / "g", "--json", stdin="ann bob\nbob cid\n# remark\ncid ann\n"
    )
    assert done.status == 0, done.err
    assert (done.json["nodes"], done.json["edges"], done.json["ids"]) == (3, 6, "string")
    assert done.err == ""


def test_a_table_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "edges.tsv").write_text("0\t1\n1\t2\n2\t2\n0\t1\n")
    assert run(["import", str(tmp_path / "edges.tsv"), "-o", str(tmp_path / "g"), "--num-nodes", "5"]) == 0
    printed = capsys.readouterr()
    assert "add --undirected" in printed.out
    assert "1 kept" in printed.out
    assert printed.err == ""
    assert run(["inspect", str(tmp_path / "g"), "--verify"]) == 0
    assert "All checksums match." in capsys.readouterr().out


def test_a_place_is_told_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Brackets mean something to the library that prints, and long lines are broken by it: not in a path."""
    place = tmp_path / "a [b] folder :star: with a rather long name, longer than a line of eighty columns has room for"
    place.mkdir()
    (place / "edges.csv").write_text("0,1\n1,2\n")
    assert run(["import", str(place / "edges.csv"), "-o", str(place / "g")]) == 0
    assert f"Wrote {place / 'g'}\n" in capsys.readouterr().out
    assert run(["inspect", str(place / "g")]) == 0
    assert f"Graph {place / 'g'}\n" in capsys.readouterr().out
    assert run(["partition", str(place / "g"), "-p", "2", "-o", str(place / "parts[/]")]) == 2, (
        "the folder 'parts[' is not there"
    )
    assert f"got {place / 'parts['}." in capsys.readouterr().err
    assert run(["partition", str(place / "g"), "-p", "2", "--method", "hash", "-o", str(place / "[red]")]) == 0
    printed = capsys.readouterr().out
    assert f"Wrote {place / '[red]'}\n" in printed
    assert "1 pass over the edges" in printed or "0 passes over the edges" in printed
    assert run(["inspect", str(place / "[red]")]) == 0
    assert f"Parts {place / '[red]'}\n" in capsys.readouterr().out


def test_a_demo_where_a_file_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert run(["demo", "-o", str(tmp_path / "file"), "--force"]) == 2
    printed = capsys.readouterr()
    assert f"Cannot make the directory {tmp_path / 'file'}: File exists." in printed.err
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("as_json", [False, True])
def test_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    """All its commands, on a graph of 400 nodes."""
    small = [
        (why, command.replace("50000", "400").replace("1000000", "4000").replace("--epochs 30", "--epochs 2"))
        for why, command in demo._STEPS
    ]
    monkeypatch.setattr(demo, "_STEPS", small)
    monkeypatch.setenv("STARLING_THREADS", "1")
    place = tmp_path / "demo"
    assert run(["demo", "-o", str(place), *(["--json"] if as_json else [])]) == 0
    printed = capsys.readouterr()
    if as_json:
        told = json.loads(printed.out)
        assert told["commands"] == [f"starling {command.format(place=place)}" for _, command in small]
        assert 0 < told["test"] <= 1
    else:
        assert "of the test nodes are classified rightly" in printed.out
    assert len((place / "predictions.csv").read_text().splitlines()) == 401
    assert run(["demo", "-o", str(place)]) == 2
    assert "exists already. Pass --force" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["", "import", "generate", "export", "inspect", "partition", "doctor", "demo"])
def test_help_is_readable(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*([verb] if verb else []), "--help"]) == 0
    assert "Usage: starling" in capsys.readouterr().out


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_json(capsys, "doctor")
    assert shown["packages"]["torch"]  # type: ignore[index]


def test_version() -> None:
    assert starling("--version").out.startswith("starling 0.")


@pytest.mark.parametrize(
    ("edges", "flags", "nodes", "isolated"),
    [
        ("0,0\n", (), 1, 0),
        ("0,1\n", ("--num-nodes", 5), 5, 3),
        ("".join(f"{leaf},0\n" for leaf in range(1, 5000)), ("--undirected",), 5000, 0),
    ],
    ids=["a single node", "isolated nodes", "all edges at one hub"],
)
def test_odd_graphs_import_and_partition(
    edges: str, flags: tuple[object, ...], nodes: int, isolated: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "edges.csv").write_text(edges)
    shown = run_json(capsys, "import", tmp_path / "edges.csv", *flags, "-o", tmp_path / "g")
    assert (shown["nodes"], shown["isolated"]) == (nodes, isolated)
    parts = run_json(capsys, "partition", tmp_path / "g", "-p", 2, "-o", tmp_path / "parts")
    assert parts["parts"] == 2
