"""Every kind of wrong input: one clear sentence, exit status 2, nothing left behind."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from starling.cli.main import run
from tests.support.command import starling, starling_command

Prepare = Callable[[Path], list[str]]


@dataclass(frozen=True)
class Case:
    """How to make the bad input (returns the arguments of `import`), and what the sentence must say."""

    prepare: Prepare
    sentence: str


def text(content: str, *more: str, name: str = "edges.csv") -> Prepare:
    def prepare(place: Path) -> list[str]:
        (place / name).write_text(content)
        return [str(place / name), *(part.format(place=place) for part in more)]

    return prepare


def arrays(*more: str, edges: object = ((0, 1), (1, 2)), **named: object) -> Prepare:
    def prepare(place: Path) -> list[str]:
        np.save(place / "edges.npy", np.array(edges, np.int64))
        for name, value in named.items():
            np.save(place / f"{name}.npy", np.asarray(value))
        return [str(place / "edges.npy"), *(part.format(place=place) for part in more)]

    return prepare


def with_table(edges: str, nodes: str, *more: str) -> Prepare:
    def prepare(place: Path) -> list[str]:
        (place / "edges.csv").write_text(edges)
        (place / "nodes.csv").write_text(nodes)
        return [str(place / "edges.csv"), "--nodes", str(place / "nodes.csv"), *more]

    return prepare


def truncated(place: Path) -> list[str]:
    np.save(place / "edges.npy", np.zeros((1000, 2), np.int64))
    content = (place / "edges.npy").read_bytes()
    (place / "edges.npy").write_bytes(content[: len(content) // 2])
    return [str(place / "edges.npy")]


def pickled(place: Path) -> list[str]:
    np.save(place / "edges.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return [str(place / "edges.npy")]


def corrupt_npz(place: Path) -> list[str]:
    np.savez_compressed(place / "graph.npz", edge_index=np.arange(20000).reshape(2, -1), num_nodes=np.int64(20000))
    content = bytearray((place / "graph.npz").read_bytes())
    content[len(content) // 3] ^= 0xFF
    (place / "graph.npz").write_bytes(bytes(content))
    return [str(place / "graph.npz")]


def corrupt_gzip(place: Path) -> list[str]:
    (place / "edges.csv.gz").write_bytes(gzip.compress(b"0,1\n1,2\n" * 1000)[:-30])
    return [str(place / "edges.csv.gz")]


def not_parquet(place: Path) -> list[str]:
    (place / "edges.parquet").write_bytes(b"PAR1 no, it is not")
    return [str(place / "edges.parquet")]


def masks(place: Path) -> list[str]:
    np.savez(
        place / "graph.npz",
        edge_index=np.array([[0, 1], [1, 2]], np.int32),
        num_nodes=np.int64(3),
        y=np.array([0, 1, 0]),
        train_mask=np.array([True, True, False]),
        test_mask=np.array([False, True, False]),
    )
    return [str(place / "graph.npz")]


def whole(**arrays: list[int]) -> Prepare:
    """A whole graph of a ring of four nodes in one archive."""

    def prepare(place: Path) -> list[str]:
        ring = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
        np.savez(place / "graph.npz", edge_index=ring, num_nodes=4, **{name: np.array(rows) for name, rows in arrays.items()})
        return [str(place / "graph.npz")]

    return prepare


CASES = {
    "negative id": Case(arrays(edges=((0, 1), (-3, 2))), r"-3.*(edge|row) 1"),
    "id beyond the nodes": Case(arrays("--num-nodes", "2"), r"2.*num-nodes|2.*2 nodes|\b2\b"),
    "ragged row": Case(text("0,1\n1,2\n2,3,9\n"), r"got 3.*line 3"),
    "not a number": Case(text("src,dst,weight\n0,1,0.5\n1,2,heavy\n"), r"'heavy'.*line 3"),
    "text among numbers": Case(text("0,1\n1,2\nann,3\n"), r"'ann'.*line 3"),
    "no second column": Case(text("0\n1\n"), r"column"),
    "empty file": Case(text(""), r"empty|no edges"),
    "missing from the node table": Case(with_table("a,b\nb,zed\n", "id,label\na,0\nb,1\n"), r"zed"),
    "twice in the node table": Case(with_table("a,b\n", "id,label\na,0\nb,1\na,1\n"), r"'?a'?.*(twice|duplicate|again)"),
    "NaN feature": Case(arrays("--features", "{place}/x.npy", x=[[0.0], [np.nan], [1.0]]), r"node 1"),
    "infinite feature": Case(arrays("--features", "{place}/x.npy", x=[[0.0], [1.0], [np.inf]]), r"node 2"),
    "too few feature rows": Case(arrays("--features", "{place}/x.npy", x=[[0.0], [1.0]]), r"3.*2|2.*3"),
    "too many labels": Case(arrays("--labels", "{place}/y.npy", "--num-nodes", "3", y=[0, 1, 0, 1]), r"3.*4|4.*3"),
    "label out of range": Case(arrays("--labels", "{place}/y.npy", "--classes", "2", y=[0, 1, 5]), r"\[0, 2\).*5.*node 2"),
    "label below -1": Case(arrays("--labels", "{place}/y.npy", y=[0, -4, 1]), r"-4.*node 1"),
    "overlapping masks": Case(masks, r"train.*test.*node 1|node 1.*train.*test"),
    "too few node types": Case(whole(node_type=[0, 1, 0]), r"4 rows in node_type in .*graph\.npz, .* got 3"),
    "too many node types": Case(whole(node_type=[0, 1, 0, 1, 1]), r"4 rows in node_type in .*graph\.npz, .* got 5"),
    "fewer node types than labels": Case(
        whole(y=[0, 1, 0, 1], node_type=[0, 1, 0]), r"in node_type in .*graph\.npz as in y .* 4, got 3"
    ),
    "types and labels of the wrong length": Case(
        whole(y=[0, 1, 0], node_type=[0, 1, 0]), r"4 rows in y, node_type in .*graph\.npz, .* got 3"
    ),
    "edge split beyond test": Case(whole(edge_split=[0, 1, 3, 2]), r"0 \(train\), 1 .* or 2 \(test\), got 3 at column 2"),
    "negative edge split": Case(whole(edge_split=[0, -1, 0, 2]), r"0 \(train\), 1 .* or 2 \(test\), got -1 at column 1"),
    "edge split in a column": Case(text("src,dst,split\n0,1,0\n1,2,3\n"), r"\(or 0, 1, 2\).*'3'.*line 3"),
    "truncated file": Case(truncated, r"truncated"),
    "pickled array": Case(pickled, r"pickle"),
    "corrupt npz": Case(corrupt_npz, r"graph\.npz"),
    "truncated gzip": Case(corrupt_gzip, r"edges\.csv\.gz"),
    "not parquet": Case(not_parquet, r"edges\.parquet"),
    "missing file": Case(lambda place: [str(place / "nowhere.csv")], r"nowhere\.csv"),
    "unknown extension": Case(text("0,1\n", name="edges.docx"), r"docx"),
    "fractional ids": Case(lambda place: (np.save(place / "e.npy", np.ones((3, 2))), [str(place / "e.npy")])[1], r"float64"),
    "wrong shape": Case(lambda place: (np.save(place / "e.npy", np.ones((3, 5), int)), [str(place / "e.npy")])[1], r"3.*5"),
    "bad split": Case(text("0,1\n", "--split", "60-20-20"), r"60/20/20"),
    "a split of digits that are no numbers": Case(text("0,1\n", "--split", "6²/20/20"), r"60/20/20.*6²/20/20"),
    "bad column flag": Case(text("0,1\n", "--column", "weight"), r"role=name"),
    "unknown column": Case(text("src,dst,w\n0,1,2\n", "--column", "weight=wait"), r"wait"),
    "a folder": Case(lambda place: [str(place)], r"Expected a file, got the folder"),
    "a feature that float32 cannot hold": Case(
        arrays("--features", "{place}/x.npy", x=[[0.0], [1e39], [1.0]]), r"node 1 of .*float32 holds up to 3\.4e\+38"
    ),
    "a name longer than any": Case(text("0,1\n", "--features", f"kind={'x' * 300}"), r"File name too long|too long"),
    "bad memory": Case(text("0,1\n", "--memory", "lots"), r"lots"),
    "memory for half a program": Case(text("0,1\n", "--memory", "100MiB"), r"at least 256.0 MiB.*got 100.0 MiB"),
    "no memory": Case(text("0,1\n", "--memory", "0"), r"more than 0 bytes.*got '0'"),
    "memory without end": Case(text("0,1\n", "--memory", "9" * 400), r"more than any machine has"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_import(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs, outputs = tmp_path / "in", tmp_path / "out"
    inputs.mkdir()
    outputs.mkdir()
    case = CASES[name]
    status = run(["import", *case.prepare(inputs), "-o", str(outputs / "graph")])
    printed = capsys.readouterr()
    assert status == 2
    assert printed.out == ""
    assert re.search(case.sentence, printed.err), printed.err
    assert printed.err.startswith("starling: ")
    assert printed.err.count("\n") == 1
    assert list(outputs.iterdir()) == []


def test_unknown_flag_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", "x.csv", "-o", "g", "--undirectd"]) == 2
    printed = capsys.readouterr().err
    assert "--undirectd" in printed
    assert "starling import --help" in printed
    assert printed.count("\n") == 1


def test_no_command_and_one_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    printed = capsys.readouterr()
    assert "Usage: starling" in printed.out
    assert printed.err == "starling: Expected a command. See: starling --help.\n"
    assert run(["imprt"]) == 2
    assert capsys.readouterr().err.endswith("'import'? See: starling --help.\n")


def test_unknown_model_suggests_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["generate", "dcsmb", "--nodes", "10", "--edges", "20", "-o", str(tmp_path / "g")]) == 2
    assert "Did you mean 'dcsbm'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--classes", "20"), "Wrong flags for the model 'dcsbm': expected at most as many classes as nodes (10), got 20.\n"),
        (("--exponent", "0.5"), "Wrong --exponent for the model 'dcsbm': Input should be greater than 1, got 0.5.\n"),
    ],
)
def test_flags_of_a_model_that_cannot_be(
    flags: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["generate", "dcsbm", "--nodes", "10", "--edges", "20", *flags, "-o", str(tmp_path / "g")]) == 2
    assert capsys.readouterr().err == f"starling: {sentence}"


def test_flag_the_model_lacks_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["generate", "rmat", "--nodes", "16", "--edges", "20", "--mix", "0.5", "-o", str(tmp_path / "g")]) == 2
    assert "--mix" in capsys.readouterr().err


@pytest.fixture
def graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    (tmp_path / "edges.csv").write_text("0,1\n1,2\n2,0\n")
    assert run(["import", str(tmp_path / "edges.csv"), "-o", str(tmp_path / "graph")]) == 0
    capsys.readouterr()
    return tmp_path / "graph"


def test_existing_output_needs_force(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (graph / "manifest.json").read_bytes()
    source = str(graph.parent / "edges.csv")
    assert run(["import", source, "-o", str(graph)]) == 2
    assert "--force" in capsys.readouterr().err
    assert (graph / "manifest.json").read_bytes() == before
    assert run(["import", source, "--undirected", "-o", str(graph), "--force"]) == 0
    assert (graph / "manifest.json").read_bytes() != before


@pytest.mark.parametrize("verb", ["inspect", "train", "forecast"])
def test_a_file_or_a_run_is_no_graph(verb: str, graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, str(graph.parent / "edges.csv")]) == 2
    assert f"Import it first: starling import {graph.parent / 'edges.csv'} -o edges." in capsys.readouterr().err
    (graph.parent / "run").mkdir()
    (graph.parent / "run" / "config.toml").write_text("[run]\n")
    assert run([verb, str(graph.parent / "run")]) == 2
    assert f"Expected a graph or parts, got the run {graph.parent / 'run'}." in capsys.readouterr().err


def test_what_a_directory_is_made_from_is_not_replaced_by_it(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", str(graph), "-o", str(graph), "--force"]) == 2
    assert f"{graph} is or holds {graph}, which is read. Choose another place for the export." in capsys.readouterr().err
    assert run(["export", str(graph), "-o", str(graph.parent / "files"), "--format", "csv"]) == 0
    again = ["import", str(graph.parent / "files" / "edges.csv"), "-o", str(graph.parent / "files"), "--force"]
    capsys.readouterr()
    assert run(again) == 2
    assert "which is read. Choose another place for the graph." in capsys.readouterr().err
    assert (graph.parent / "files" / "edges.csv").is_file()
    assert run(["inspect", str(graph), "--verify"]) == 0


def test_a_newer_manifest_is_refused(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads((graph / "manifest.json").read_text())
    (graph / "manifest.json").write_text(json.dumps(document | {"version": 99}))
    assert run(["inspect", str(graph)]) == 2
    assert "version 99" in capsys.readouterr().err


def test_file_names_may_not_leave_the_directory(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads((graph / "manifest.json").read_text())
    document["files"]["../secrets.npy"] = document["files"].pop("edges.npy")
    (graph / "manifest.json").write_text(json.dumps(document))
    assert run(["inspect", str(graph)]) == 2
    assert "outside" in capsys.readouterr().err


def test_verify_finds_one_flipped_bit(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(graph), "--verify"]) == 0
    content = bytearray((graph / "edges.npy").read_bytes())
    content[-1] ^= 1
    (graph / "edges.npy").write_bytes(bytes(content))
    capsys.readouterr()
    assert run(["inspect", str(graph), "--verify"]) == 2
    assert "edges.npy" in capsys.readouterr().err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interruption_leaves_nothing(how: signal.Signals, tmp_path: Path) -> None:
    with subprocess.Popen(
        starling_command("import", "-", "-o", tmp_path / "graph"),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # tests may run where it is ignored
    ) as process:
        feeder = threading.Thread(target=feed_without_end, args=(process.stdin,))
        feeder.start()
        deadline = time.monotonic() + 100
        while not list(tmp_path.iterdir()) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        began = list(tmp_path.iterdir())
        process.send_signal(how)
        assert process.stderr is not None
        err = process.stderr.read().decode()
        process.wait(60)
        feeder.join()
    assert began, "the import never began"
    assert process.returncode == 130
    assert "Interrupted" in err
    assert list(tmp_path.iterdir()) == []


def feed_without_end(pipe: IO[bytes]) -> None:
    """Write edges until nobody reads them any more."""
    lines = b"".join(b"%d %d\n" % (i, i + 1) for i in range(10_000))
    with contextlib.suppress(BrokenPipeError), pipe:
        while True:
            pipe.write(lines)


def test_a_full_disk_is_status_1_and_leaves_nothing(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs Linux")
    np.save(tmp_path / "edges.npy", np.zeros((100_000, 2), np.int64))
    outputs = tmp_path / "out"
    outputs.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(outputs)], capture_output=True, check=False)
    if mount.returncode != 0:
        pytest.skip("cannot mount a small file system here")
    try:
        done = starling("import", tmp_path / "edges.npy", "-o", outputs / "graph")
        assert done.status == 1
        assert "No space left" in done.err
        assert done.err.count("\n") == 1
        assert list(outputs.iterdir()) == []
    finally:
        subprocess.run(["umount", str(outputs)], check=True)
