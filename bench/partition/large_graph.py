"""A graph of 10 M nodes and 100 M edges: spring, restream and flock beside METIS, KaMinPar and Mt-KaHyPar, p = 8, 2 threads.

    python bench/partition/large_graph.py FOLDER [--nodes 1e7] [--edges 1e8] [--runs "spring,flock,flock whole,metis"]
    python bench/partition/large_graph.py --render

Each run is a process of its own. A method's own name is its assignment phase: seconds, edges a second in each pass, peak
resident memory, copies and cut. "flock whole" is the command `starling partition`, shards included. A library gets its graph
ready made (libraries.py), --limit bytes of resident memory and --timeout seconds of running; not fitting is a result too.
Runs go to bench/results/partition_large_graph.json, one for each graph and name, a new one in place of the old.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libraries
import numpy as np

from starling.core.assignment import Assignment
from starling.core.memory import format_bytes, parse_bytes, peak_rss_bytes, rss_bytes
from starling.core.progress import Task
from starling.partition.contract import PartitionTask
from starling.partition.quality import measure
from starling.partition.registry import make_method
from starling.store.graph import open_graph
from starling.stream.edges import EdgesInMemory

RESULTS = Path(__file__).resolve().parents[1] / "results"
RUNS = ("spring", "restream", "flock", "spring whole", "restream whole", "flock whole", *libraries.INPUTS)
SPARE = 1 << 30
"""Memory of the machine that a library must leave free, whatever its limit: others may be at work."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="for the graph and what is made of it; kept")
    parser.add_argument("--nodes", type=float, default=1e7)
    parser.add_argument("--edges", type=float, default=1e8)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", default=",".join(RUNS))
    parser.add_argument("--memory", type=parse_bytes, default=1 << 30, help="of an assignment phase")
    parser.add_argument("--whole-memory", default="2GiB", help="of a whole command")
    parser.add_argument("--limit", type=parse_bytes, default=16 << 30, help="resident memory of a library")
    parser.add_argument("--timeout", type=float, default=1200, help="seconds that a library may run")
    parser.add_argument("--results", type=Path, default=RESULTS / "partition_large_graph.json")
    parser.add_argument("--render", action="store_true", help="write the table of what is there and stop")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print("\n" + json.dumps(child(args, args.child)), flush=True)
    elif not args.render:
        args.folder.mkdir(parents=True, exist_ok=True)
        generate(args)
        for name in args.runs.split(","):
            keep(args, name, whole_command(args, name.split()[0]) if name.endswith(" whole") else in_child(args, name))
    if not args.child and args.results.is_file():
        args.results.with_suffix(".md").write_text(report(json.loads(args.results.read_text())))


def generate(args: argparse.Namespace) -> None:
    """The graph, made the first time: communities and power-law degrees."""
    if not graph_of(args).is_dir():
        size = ["--nodes", str(int(args.nodes)), "--edges", str(int(args.edges)), "--classes", "100", "--features", "0"]
        command = [sys.executable, "-m", "starling", "generate", "dcsbm", *size, "-o", str(graph_of(args)), "--quiet"]
        subprocess.run(command, check=True, stdout=sys.stderr)


def graph_of(args: argparse.Namespace) -> Path:
    return args.folder / f"graph-{int(args.nodes)}-{int(args.edges)}"


def inputs_of(args: argparse.Namespace) -> Path:
    """Where the libraries' forms of the graph are."""
    folder = args.folder / f"inputs-{int(args.nodes)}-{int(args.edges)}"
    folder.mkdir(exist_ok=True)
    return folder


def keep(args: argparse.Namespace, name: str, row: dict[str, Any]) -> None:
    """Put a run into the results."""
    key = {"nodes": int(args.nodes), "edges": int(args.edges), "parts": args.parts, "name": name}
    known = json.loads(args.results.read_text()) if args.results.is_file() else []
    rows = [old for old in known if any(old[field] != key[field] for field in key)]
    args.results.write_text(json.dumps([*rows, key | {"threads": args.threads} | row], indent=1) + "\n")
    print(json.dumps(key | row), flush=True)


def whole_command(args: argparse.Namespace, method: str) -> dict[str, Any]:
    """`starling partition` as a user runs it, shards included."""
    parts = args.folder / "parts"
    command = [sys.executable, "-m", "starling", "partition", str(graph_of(args)), "-o", str(parts), "--method", method]
    command += ["-p", str(args.parts), "--memory", args.whole_memory, "--threads", str(args.threads), "--json"]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    shutil.rmtree(parts, ignore_errors=True)
    if status:
        raise SystemExit(f"starling partition --method {method} failed")
    reported = {name: value for name, value in json.loads(said).items() if name != "output"}
    return (
        usage_of(seconds, usage)
        | {"memory": args.whole_memory, "peak_rss_bytes": usage.ru_maxrss << 10}
        | reported_as(reported)
    )


def reported_as(reported: dict[str, Any]) -> dict[str, Any]:
    return {
        name: reported[name] for name in ("replication_factor", "edge_cut", "node_balance", "assign_seconds", "shard_seconds")
    }


def usage_of(seconds: float, usage: Any) -> dict[str, Any]:
    return {"seconds": round(seconds, 1), "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1)}


def in_child(args: argparse.Namespace, name: str) -> dict[str, Any]:
    """A method or a library in a process of its own, ended when it exceeds its limit or its time."""
    if name in libraries.INPUTS:
        prepare = [sys.executable, __file__, *same(args), "--child", f"prepare {name}"]
        subprocess.run(prepare, check=True, stdout=sys.stderr)
    process = subprocess.Popen([sys.executable, __file__, *same(args), "--child", name], stdout=subprocess.PIPE, text=True)
    failure, began, highest = None, time.monotonic(), 0
    while process.poll() is None and name in libraries.INPUTS and failure is None:
        time.sleep(0.1)
        held, processor = status_of(process.pid)
        highest = max(highest, held)
        if held > args.limit or available() < SPARE:
            failure = f"does not fit in {format_bytes(min(args.limit, held))}"
        elif processor > args.timeout * args.threads or time.monotonic() - began > 3 * args.timeout:
            failure = f"not finished in {processor:.0f} s of processor time"
    if failure:
        process.kill()
        process.wait()
        return {"failed": failure, "peak_rss_bytes": highest}
    said, _ = process.communicate()
    if process.returncode:
        return {"failed": f"ended with status {process.returncode}", "peak_rss_bytes": highest}
    return json.loads(said.splitlines()[-1])


def same(args: argparse.Namespace) -> list[str]:
    """The arguments that a child needs to see the same graph."""
    given = {"nodes": args.nodes, "edges": args.edges, "parts": args.parts, "threads": args.threads, "memory": args.memory}
    return [str(args.folder), *(f"--{name}={value}" for name, value in given.items())]


def status_of(pid: int) -> tuple[int, float]:
    """Resident bytes and processor seconds of a process; nothing where it has just ended."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        return int(fields[21]) * page, (int(fields[11]) + int(fields[12])) / ticks
    return 0, 0.0


def available() -> int:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) << 10


class Timed:
    """Notes how long each task took and how many edges it went through."""

    def __init__(self) -> None:
        self.passes: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def task(self, name: str, total: int | None = None, unit: str = "edges") -> Iterator[Task]:
        """Time a task."""
        began = time.monotonic()
        yield self
        seconds = time.monotonic() - began
        self.passes.append({"pass": name, "seconds": round(seconds, 2), "edges_per_second": round((total or 0) / seconds)})

    def advance(self, amount: int) -> None:
        """Only the whole counts."""


def child(args: argparse.Namespace, name: str) -> dict[str, Any]:
    """What runs in a process of its own."""
    edges = open_graph(graph_of(args)).edge_stream()
    if name.startswith("prepare "):
        libraries.write_input(name.removeprefix("prepare "), edges, inputs_of(args))
        return {}
    timed = Timed()
    if name in libraries.INPUTS:
        Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out after all, it is this one
        before = rss_bytes()
        began, processor = time.monotonic(), time.process_time()
        call = libraries.partition(name, libraries.write_input(name, edges, inputs_of(args)), args.parts, args.threads, 0)
        loaded = time.monotonic() - began
        began, processor = time.monotonic(), time.process_time()
        assignment = Assignment("edge-cut", args.parts, call())
        extra: dict[str, Any] = {"load_seconds": round(loaded, 1)}
    else:
        with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
            make_method(name).assign(PartitionTask(tiny(), args.parts, scratch=Path(scratch)))  # kernels loaded
            before = rss_bytes()
            task = PartitionTask(edges, args.parts, 0, args.memory, args.threads, timed, Path(scratch))
            began, processor = time.monotonic(), time.process_time()
            assignment = make_method(name).assign(task)
        extra = {"memory": format_bytes(args.memory), "passes": timed.passes, "notes": assignment.notes}
    measured = {
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time() - processor, 1),
        "peak_rss_bytes": peak_rss_bytes(),
        "rss_before_bytes": before,
    }
    quality = measure(edges, assignment).record()
    shown = {field: round(float(quality[field]), 4) for field in ("replication_factor", "edge_cut", "node_balance")}  # type: ignore[arg-type]
    return measured | shown | extra


def tiny() -> EdgesInMemory:
    """A ring of 1,000 nodes."""
    here = np.arange(1000, dtype=np.int32)
    there = np.roll(here, 1)
    return EdgesInMemory(np.concatenate([np.stack([here, there], 1), np.stack([there, here], 1)]), 1000, directed=False)


def report(rows: list[dict[str, Any]]) -> str:
    """A table a graph."""
    lines = ["# Large generated graphs", "", NOTE]
    for nodes, edges, parts in sorted({(row["nodes"], row["edges"], row["parts"]) for row in rows}):
        lines += ["", f"## {nodes / 1e6:g} M nodes, {edges / 1e6:g} M edges, p = {parts}", ""]
        lines += ["| run | replication | edges cut | balance | seconds | processor s | peak memory | slowest pass, edges/s |"]
        lines += ["|---|---|---|---|---|---|---|---|"]
        found = {row["name"]: row for row in rows if (row["nodes"], row["edges"], row["parts"]) == (nodes, edges, parts)}
        lines += [cells(found[name]) for name in RUNS if name in found]
    return "\n".join(lines) + "\n"


def cells(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"| {row['name']} | {row['failed']} | | | | | more than {format_bytes(row['peak_rss_bytes'])} | |"
    rates = [each["edges_per_second"] for each in row.get("passes", []) if each["edges_per_second"]]
    slowest = f"{min(rates) / 1e6:.1f} M" if rates else ""
    quality = f"{row['replication_factor']:.3f} | {row['edge_cut']:.3f} | {row['node_balance']:.3f}"
    cost = f"{row['seconds']:.0f} | {row['cpu_seconds']:.0f} | {format_bytes(row['peak_rss_bytes'])}"
    return f"| {row['name']} | {quality} | {cost} | {slowest} |"


NOTE = """Made by `python bench/partition/large_graph.py`; the runs, each pass with its speed, are in
`partition_large_graph.json`. Peak memory is that of the whole process. "whole" is the command with shards and quality report,
within `--memory 2GiB`; the other rows are the assignment alone, within 1 GiB where a method asks. The libraries ran beside
other work, so their processor seconds count, not their seconds; reading their input is not in them."""


if __name__ == "__main__":
    main()
