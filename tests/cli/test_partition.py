"""``starling partition`` as scripts and people use it, with good and with bad input."""

from __future__ import annotations

import errno
import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from starling.cli.main import run
from starling.core import npy
from starling.core.assignment import AssignmentManifest, load_assignment
from starling.partition.balance import Load, balance
from starling.partition.quality import measure
from starling.store.graph import open_graph
from starling.store.parts import open_parts
from tests.support.command import starling_command
from tests.support.graphs import write_graph

KEYS = {
    "method", "parts", "replication_factor", "edge_cut", "node_balance", "edge_balance", "train_balance",
    "passes", "seconds", "edges_per_second", "peak_rss_bytes",
}  # fmt: skip


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("partition") / "graph"
    sizes = ["--nodes", "2000", "--edges", "24000", "--classes", "4", "--features", "3", "--seed", "7"]
    assert run(["generate", "dcsbm", *sizes, "-o", str(place)]) == 0
    return place


def partition(capsys: pytest.CaptureFixture[str], graph: Path, output: Path, *flags: object) -> dict[str, object]:
    capsys.readouterr()
    assert run(["partition", str(graph), "-o", str(output), *map(str, flags), "--json"]) == 0, capsys.readouterr().err
    result: dict[str, object] = json.loads(capsys.readouterr().out)
    return result


def test_default_method_and_keys(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = partition(capsys, graph, tmp_path / "parts", "-p", 4)
    assert set(result) >= KEYS
    assert (result["method"], result["parts"]) == ("flock", 4)
    parts = open_parts(tmp_path / "parts")
    # The replication factor, counted again from what the shards hold.
    held = sum(record.nodes + sum(record.halo) for record in parts.manifest.shards)
    assert result["replication_factor"] == pytest.approx(held / 2000, abs=1e-6)
    edges = np.asarray(open_graph(graph).edges)
    owner = load_assignment(tmp_path / "parts" / "assignment")[0].owner
    assert result["edge_cut"] == pytest.approx((owner[edges[:, 0]] != owner[edges[:, 1]]).mean(), abs=1e-6)
    assert result["node_balance"] == pytest.approx(np.bincount(owner, minlength=4).max() * 4 / 2000, abs=1e-4)


def test_bytes_of_a_layer_and_a_random_deal_are_in_the_object(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = partition(capsys, graph, tmp_path / "parts", "-p", 3, "--method", "spring", "--width", 10)
    copies = sum(sum(record.halo) for record in open_parts(tmp_path / "parts").manifest.shards)
    assert (result["width"], result["bytes_per_layer"]) == (10, copies * 40)
    random = result["random"]
    assert isinstance(random, dict)
    assert random["bytes_per_layer"] > copies * 40
    assert float(str(result["replication_factor"])) < random["replication_factor"]


@pytest.mark.parametrize(
    "flags",
    [("spring", "--sub-parts", 2), ("flock", "--sub-parts", 2), ("hash", "--sub-parts", 3), ("hdrf", "--keep-vertex-cut")],
    ids=["spring", "flock", "hash", "hdrf"],
)
def test_same_seed_same_bytes(
    flags: tuple[object, ...], graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, threads in (("a", 1), ("b", 2)):
        partition(capsys, graph, tmp_path / name, "-p", 3, "--seed", 5, "--threads", threads, "--method", *flags)
    first = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert first == json.loads((tmp_path / "b" / "manifest.json").read_text())


def test_balance_keeps_every_load_within_tolerance(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("-p", 4, "--method", "hash", "--balance", "train,val,test,edges", "--tolerance", 5)
    partition(capsys, graph, tmp_path / "parts", *flags)
    owner = load_assignment(tmp_path / "parts" / "assignment")[0].owner
    opened = open_graph(graph)
    degree = np.bincount(np.asarray(opened.edges)[:, 1], minlength=2000)
    for weight in (np.ones(2000), degree, *(np.asarray(opened.node_table(name)) for name in ("train", "val", "test"))):
        held = np.bincount(owner, weight, minlength=4)
        assert held.max() <= max(1.05 * held.mean(), np.ceil(held.mean())) + 1e-9


def test_edges_to_balance_are_aimed_at_from_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hubs = tmp_path / "hubs"
    assert run(["generate", "rmat", "--nodes", "4096", "--edges", "40000", "--seed", "3", "-o", str(hubs)]) == 0
    plain = partition(capsys, hubs, tmp_path / "plain", "-p", 4)
    aimed = partition(capsys, hubs, tmp_path / "aimed", "-p", 4, "--balance", "edges", "--tolerance", 5)
    assert float(str(plain["edge_balance"])) > 1.3 > 1.0501 > float(str(aimed["edge_balance"]))
    edges = open_graph(hubs).edge_stream()
    degree = np.bincount(np.asarray(open_graph(hubs).edges)[:, 1], minlength=edges.nodes)
    afterwards = balance(load_assignment(tmp_path / "plain" / "assignment")[0], edges, [Load("edges", degree)])
    assert float(str(aimed["replication_factor"])) < measure(edges, afterwards).replication_factor


@pytest.mark.parametrize("method", ["flock", "restream"])
def test_sub_parts_cut_far_fewer_edges_than_random(
    method: str, graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The graph's nodes are in random order; two random halves of a part would cut half of its edges."""
    partition(capsys, graph, tmp_path / "parts", "-p", 2, "--sub-parts", 2, "--method", method)
    parts = open_parts(tmp_path / "parts")
    ends = np.asarray(parts.global_of_position)[np.asarray(open_graph(graph).edges)]
    bounds = [bound for record in parts.manifest.shards for bound in record.sub_offsets[1:]]
    part, sub = np.searchsorted(parts.offsets, ends, side="right"), np.searchsorted(bounds, ends, side="right")
    inner = part[:, 0] == part[:, 1]
    assert (sub[inner, 0] != sub[inner, 1]).mean() < 0.25


def test_vertex_cut_kept_or_made_ready(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pure = partition(capsys, graph, tmp_path / "pure", "-p", 4, "--method", "hdrf", "--keep-vertex-cut")
    ready = partition(capsys, graph, tmp_path / "ready", "-p", 4, "--method", "hdrf")
    assert (pure["kind"], ready["kind"]) == ("vertex-cut", "edge-cut")
    hashed = ("--method", "hash", "--set", "by=source", "--keep-vertex-cut")
    assert partition(capsys, graph, tmp_path / "hashed", "-p", 4, *hashed)["kind"] == "vertex-cut"
    assert sum(record.edges for record in open_parts(tmp_path / "pure").manifest.shards) == open_graph(graph).manifest.edges


@pytest.mark.parametrize("method", ["louvain", "leiden"])
def test_communities_are_a_node_table(method: str, graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = partition(capsys, graph, tmp_path / "parts", "-p", 2, "--sub-parts", 2, "--method", method)
    parts = open_parts(tmp_path / "parts")
    cluster = np.empty(2000, np.int64)
    for part in range(2):
        shard = parts.shard(part)
        cluster[np.asarray(shard.position)[: shard.owned]] = np.asarray(shard.node_table("cluster"))
    notes = result["notes"]
    assert isinstance(notes, dict)
    assert np.array_equal(np.unique(cluster), np.arange(notes["communities"]))
    assert np.bincount(cluster).max() == notes["largest_community"]
    owner = load_assignment(tmp_path / "parts" / "assignment")[0].owner
    assert all(len(set(owner[cluster == community])) == 1 for community in np.unique(cluster))
    assert parts.manifest.node_tables["cluster"].shape == (2000,)


def test_settings_of_a_method(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = partition(capsys, graph, tmp_path / "cut", "-p", 4, "--method", "metis")
    volume = partition(capsys, graph, tmp_path / "volume", "-p", 4, "--method", "metis", "--set", "objective=volume")
    assert volume["settings"] == {"objective": "volume"}
    assert cut["replication_factor"] != volume["replication_factor"]


def test_the_manifest_says_how_parts_were_made(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partition(capsys, graph, tmp_path / "parts", "-p", 2, "--method", "spring", "--set", "tau=0.5", "--balance", "train,edges")
    manifest = open_parts(tmp_path / "parts").manifest
    assert manifest.settings == {"tau": 0.5, "beta": 1.05}
    making = manifest.making
    assert making is not None
    assert (making.memory, making.balance, making.tolerance) == (1 << 30, ("train", "edges"), 0.05)
    whole = open_graph(graph).manifest
    assert making.tables == {"train": whole.files[whole.node_tables["train"].files[0]].sha256}
    assert AssignmentManifest.read(tmp_path / "parts" / "assignment").making == making


def test_automatic_parts_fit_the_worker(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--parts", "auto", "--method", "hash")
    roomy = partition(capsys, graph, tmp_path / "roomy", *flags, "--worker-memory", "2GiB")
    tight = partition(capsys, graph, tmp_path / "tight", *flags, "--worker-memory", "404MiB")
    assert roomy["parts"] == 1
    assert int(str(tight["parts"])) > 1


def test_automatic_parts_count_the_hops_kept(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--parts", "auto", "--method", "hash", "--worker-memory", "403MiB")
    one = partition(capsys, graph, tmp_path / "one", *flags)
    none = partition(capsys, graph, tmp_path / "none", *flags, "--halo-hops", 0)
    assert int(str(none["parts"])) < int(str(one["parts"]))


def test_a_users_own_method(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "from starling.core.assignment import Assignment\n"
        "from starling.partition.contract import Partitioner\n"
        "class Stripes(Partitioner):\n"
        "    'Every p-th node.'\n"
        "    def _assign(self, task):\n"
        "        owner = (np.arange(task.edges.nodes) % task.parts).astype(np.int32)\n"
        "        return Assignment('edge-cut', task.parts, owner)\n"
    )
    result = partition(capsys, graph, tmp_path / "parts", "-p", 5, "--method", f"{tmp_path / 'mine.py'}:Stripes")
    assert result["node_balance"] == 1.0


def test_a_metis_part_file(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "graph.part.2").write_text("".join(f"{node % 2}\n" for node in range(2000)))
    result = partition(capsys, graph, tmp_path / "parts", "--assignment", tmp_path / "graph.part.2")
    assert (result["parts"], result["node_balance"]) == (2, 1.0)


def test_an_edge_cut_given_is_not_kept_as_a_vertex_cut(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "graph.part.2").write_text("".join(f"{node % 2}\n" for node in range(2000)))
    given = ["--assignment", str(tmp_path / "graph.part.2"), "--keep-vertex-cut"]
    assert run(["partition", str(graph), "-o", str(tmp_path / "parts"), *given]) == 2
    assert "graph.part.2 is an edge-cut" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["metis", "dgl"])
def test_parts_go_out_and_come_back(form: str, graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partition(capsys, graph, tmp_path / "parts", "-p", 3, "--method", "spring")
    assert run(["export", str(tmp_path / "parts"), "-o", str(tmp_path / form), "--format", form]) == 0
    written = tmp_path / form / ("graph.part.3" if form == "metis" else "graph")
    partition(capsys, graph, tmp_path / "again", "--assignment", written)
    owners = [load_assignment(tmp_path / name / "assignment")[0].owner for name in ("parts", "again")]
    np.testing.assert_array_equal(*owners)


def test_a_table_for_people(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["partition", str(graph), "-p", "2", "--method", "spring", "-o", str(tmp_path / "parts")]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"replication factor +1\.\d+ +\d\.\d+", printed)
    assert "random" in printed
    assert run(["inspect", str(tmp_path / "parts"), "--verify"]) == 0
    assert "All checksums match." in capsys.readouterr().out


@pytest.mark.parametrize("nodes", [500, 9000])
@pytest.mark.parametrize("method", ["hash", "hdrf"])
def test_the_assignment_of_another_graph(
    nodes: int, method: str, graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--nodes", str(nodes), "--edges", "24000", "--seed", "7"]
    assert run(["generate", "rmat", *sizes, "-o", str(tmp_path / "other")]) == 0
    keep = ("--keep-vertex-cut",) if method == "hdrf" else ()
    partition(capsys, tmp_path / "other", tmp_path / "made", "-p", 2, "--method", method, *keep)
    given = ["--assignment", str(tmp_path / "made" / "assignment"), *keep]
    assert run(["partition", str(graph), "-o", str(tmp_path / "parts"), *given]) == 2
    printed = capsys.readouterr()
    assert re.search(r"Expected an assignment of 2,000 nodes and 22,576 edges, got one of", printed.err), printed.err
    assert printed.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "other"]


BAD = {
    "no parts": (["-p", "0"], r"0"),
    "absurdly many parts": (["-p", "1000000"], r"1,000,000"),
    "not a number": (["-p", "four"], r"'four'"),
    "unknown method": (["-p", "2", "--method", "sprnig"], r"Did you mean 'spring'"),
    "unknown setting": (["-p", "2", "--method", "metis", "--set", "objectiv=cut"], r"Did you mean 'objective'"),
    "setting without a value": (["-p", "2", "--set", "sweeps"], r"name=value"),
    "too big for memory": (["-p", "2", "--method", "metis", "--memory", "100KiB"], r"--method flock"),
    "too little memory for shards": (["-p", "2", "--memory", "1MiB"], r"--memory of at least 249"),
    "too many parts for memory": (["-p", "30000", "--method", "hash"], r"30,000 parts .* --memory of at least 6\.9 GiB"),
    "in memory, too little for shards": (["-p", "2", "--method", "metis", "--memory", "100MiB"], r"--memory of at least 249"),
    "worker memory for given parts": (["-p", "2", "--worker-memory", "2GiB"], r"Leave one out"),
    "an edge-cut to keep as a vertex-cut": (
        ["-p", "2", "--method", "spring", "--keep-vertex-cut"],
        r"2ps-l, hash --set by=source\), which spring",
    ),
    "no types to balance": (["-p", "2", "--method", "hash", "--balance", "types"], r"node types"),
    "no load at all": (["-p", "2", "--method", "hash", "--balance", ""], r"Unknown load '' in --balance"),
    "unknown load": (["-p", "2", "--method", "hash", "--balance", "trian"], r"Did you mean 'train'"),
    "auto without memory": (["--parts", "auto"], r"--worker-memory"),
    "a worker of nothing": (["--parts", "auto", "--worker-memory", "1MiB"], r"400\.0 MiB"),
    "balance of a vertex-cut": (["-p", "2", "--method", "hdrf", "--keep-vertex-cut", "--balance", "train"], r"vertex-cut"),
    "a setting beyond reason": (["-p", "2", "--method", "spring", "--set", "tau=1e300"], r"at most 1,000,000, got 1e\+300"),
    "tolerance of nothing": (["-p", "2", "--method", "hash", "--tolerance", "3"], r"no --balance is given"),
    "halo hops of a vertex-cut": (["-p", "2", "--method", "hdrf", "--keep-vertex-cut", "--halo-hops", "2"], r"--halo-hops 2"),
    "a digit that is no number": (["-p", "²"], r"'²'"),
    "a method beside an assignment": (["--assignment", "a.part", "--method", "flock"], r"--method is for cutting"),
    "settings beside an assignment": (["--assignment", "a.part", "--set", "foo=bar"], r"--set is for cutting"),
    "workers beside an assignment": (["--assignment", "a.part", "--worker-memory", "2GiB"], r"--worker-memory is for cutting"),
    "no such partition": (["--assignment", "nowhere.part"], r"nowhere\.part"),
    "no such file of methods": (["-p", "2", "--method", "none.py:Mine"], r"none\.py"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_partition(name: str, graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags, sentence = BAD[name]
    capsys.readouterr()
    assert run(["partition", str(graph), "-o", str(tmp_path / "parts"), *flags]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.search(sentence, printed.err), printed.err
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_node_types_are_balanced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every node of type 1 is in part 0 of the given cut; afterwards both types are spread over both parts."""
    types = np.array([0] * 300 + [1] * 100, np.uint8)
    pairs = np.random.default_rng(2).integers(0, 400, (2000, 2))
    graph = write_graph(tmp_path / "graph", pairs, 400, node_tables={"type": types}, node_types=("paper", "author"))
    (tmp_path / "cut.part").write_text("".join(f"{0 if node < 100 or node >= 300 else 1}\n" for node in range(400)))
    partition(capsys, graph.path, tmp_path / "parts", "--assignment", tmp_path / "cut.part", "--balance", "types")
    owner = load_assignment(tmp_path / "parts" / "assignment")[0].owner
    for code in (0, 1):
        held = np.bincount(owner[types == code], minlength=2)
        assert held.max() <= max(1.05 * held.mean(), np.ceil(held.mean())), (code, held)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_nothing(
    number: int, graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up in the middle: the assignment is written, the shards are not."""
    written = 0

    def write(file: BinaryIO, array: np.ndarray) -> None:
        nonlocal written
        written += array.nbytes
        if written > 100_000:
            raise OSError(number, "No space left on device")
        file.write(array.reshape(-1).view(np.uint8).data)

    monkeypatch.setattr(npy, "write_values", write)
    capsys.readouterr()
    assert run(["partition", str(graph), "-p", "2", "--method", "hash", "-q", "-o", str(tmp_path / "parts")]) == 1
    printed = capsys.readouterr()
    assert "No space left on the device while writing" in printed.err
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


ENDLESS = """
import time
from starling.partition.contract import Partitioner

class Endless(Partitioner):
    def _assign(self, task):
        time.sleep(300)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interruption_leaves_nothing(how: signal.Signals, graph: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ENDLESS)
    outputs = tmp_path / "out"
    outputs.mkdir()
    command = starling_command("partition", graph, "-p", 2, "--method", f"{tmp_path}/mine.py:Endless", "-o", outputs / "parts")
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # tests may run where it is ignored
    ) as process:
        deadline = time.monotonic() + 100
        while not list(outputs.glob(".parts.partial-*/assigning")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        began = list(outputs.iterdir())
        process.send_signal(how)
        assert process.stderr is not None
        err = process.stderr.read().decode()
        process.wait(60)
    assert began, "it never began"
    assert process.returncode == 130
    assert "Interrupted" in err
    assert list(outputs.iterdir()) == []


def test_existing_output_is_refused(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "parts").mkdir()
    assert run(["partition", str(graph), "-p", "2", "--method", "hash", "-o", str(tmp_path / "parts")]) == 2
    assert "exists already" in capsys.readouterr().err


def test_the_graph_itself_is_not_replaced(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in (graph, graph.parent):
        assert run(["partition", str(graph), "-p", "2", "--method", "hash", "--force", "-o", str(place)]) == 2
        assert "is the graph to cut, or holds it" in capsys.readouterr().err
    assert open_graph(graph).manifest.nodes == 2000
