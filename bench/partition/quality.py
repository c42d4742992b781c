"""Every method on six real graphs and two generated ones: copies, cut, balance, time and memory, medians of five seeds.

    python bench/partition/quality.py [--methods flock,metis] [--graphs cora,rmat] [--parts 4,8] [--seeds 5]
    python bench/partition/quality.py --methods flock,metis --graphs musae_github,ego_twitter,mesh_copter2,soc_epinions1
    python bench/partition/quality.py --render docs/partitioning-table.md

Appends a JSON line a run to bench/results/partition_quality.jsonl and skips what is there, so it can be stopped and started.
A child process does all seeds of one method on one graph and reads the edges from disk; its peak resident memory is theirs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import real_graphs

from starling.core.memory import format_bytes, peak_rss_bytes, rss_bytes
from starling.core.npy import save_array
from starling.partition.contract import PartitionTask
from starling.partition.ownership import to_edge_cut
from starling.partition.quality import measure
from starling.partition.registry import METHODS, make_method
from starling.stream.edges import EdgesOnDisk

RESULTS = Path(__file__).resolve().parents[1] / "results" / "partition_quality.jsonl"
GRAPHS = Path(__file__).resolve().parent / "graphs"
GENERATED = {
    "dcsbm": ["dcsbm", "--nodes", "200000", "--edges", "10000000", "--classes", "40", "--features", "0"],
    "rmat": ["rmat", "--nodes", str(1 << 17), "--edges", "4000000"],
}
REAL = ("cora", "pubmed", "coauthor_cs", "email_enron", "web_notredame", "road_ny")
HELD_OUT = ("musae_github", "ego_twitter", "mesh_copter2", "soc_epinions1")
"""Real graphs that no constant of flock was chosen on."""
PARTS = (4, 8, 16, 64)
VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    "flock": ("flock", {}),
    "metis": ("metis", {}),
    "metis volume": ("metis", {"objective": "volume"}),
    "restream": ("restream", {}),
    "kaminpar": ("kaminpar", {}),
    "mtkahypar": ("mtkahypar", {}),
    "mtkahypar km1": ("mtkahypar", {"objective": "km1"}),
    **{
        name: (name, {}) for name in ("spring", "2ps-l", "hdrf", "greedy", "dbh", "grid", "hash", "random", "louvain", "leiden")
    },
}
"""Column of the table: method and settings."""
MEMORY = {True: 1 << 30, False: 16 << 30}
"""Streaming methods have what the command line gives them, the others what they ask for."""
SEEDS = 5
SAME_FOR_EVERY_SEED = ("spring", "2ps-l", "hdrf", "greedy", "restream")
"""Methods that draw nothing: one run is the median of five."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=real_graphs.DATA, help="directory of .npz files")
    parser.add_argument("--methods", default=",".join(VARIANTS))
    parser.add_argument("--graphs", default=",".join((*REAL, *GENERATED)))
    parser.add_argument("--parts", default=",".join(map(str, PARTS)))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--render", type=Path, metavar="FILE", help="write the table of what is there and stop")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        run(*args.child)
    elif args.render:
        args.render.write_text(table(read(args.results)))
    else:
        measure_missing(args)


def measure_missing(args: argparse.Namespace) -> None:
    """One child a method, graph and number of parts, for the seeds that are not there yet."""
    args.results.parent.mkdir(exist_ok=True)
    for label in args.methods.split(","):
        if importlib.util.find_spec(label.split()[0]) is None and label.split()[0] in ("kaminpar", "mtkahypar"):
            print(f"{label} is not installed", flush=True)
            continue
        for graph in args.graphs.split(","):
            make_edges(graph, args.data)
            for parts in args.parts.split(","):
                done = {row["seed"] for row in read(args.results) if key(row) == (label, graph, int(parts))}
                wanted = range(1 if label in SAME_FOR_EVERY_SEED else args.seeds)
                seeds = [seed for seed in wanted if seed not in done]
                if not seeds:
                    continue
                command = [sys.executable, __file__, "--child", label, graph, parts, ",".join(map(str, seeds))]
                child = subprocess.run(command, capture_output=True, text=True, check=False)
                if child.returncode:
                    print(f"{label} on {graph}, {parts} parts: {child.stderr.strip().splitlines()[-1]}", flush=True)
                    continue
                lines = [line for line in child.stdout.splitlines() if line.startswith("{")]
                with args.results.open("a") as file:
                    file.writelines(line + "\n" for line in lines)
                print("\n".join(lines), flush=True)


def edges_of(graph: str) -> Path:
    return GRAPHS / graph / "edges.npy"


def make_edges(graph: str, data: Path) -> None:
    """Write the edges of a graph to disk, the first time."""
    path = edges_of(graph)
    if not path.is_file():
        GRAPHS.mkdir(exist_ok=True)
        (GRAPHS / ".gitignore").write_text("*\n")
        if graph in GENERATED:
            command = [
                sys.executable,
                "-m",
                "starling",
                "generate",
                *GENERATED[graph],
                "-o",
                str(path.parent),
                "--quiet",
                "--force",
            ]
            subprocess.run(command, check=True, stdout=sys.stderr)
        else:
            edges = real_graphs.load(graph, data)
            path.parent.mkdir(exist_ok=True)
            (path.parent / "nodes.json").write_text(json.dumps(edges.nodes))
            save_array(path, next(edges.blocks(edges.edges)).pairs)


def stream(graph: str) -> EdgesOnDisk:
    """The graph as partitioners read it."""
    path = edges_of(graph)
    if graph in GENERATED:
        nodes = json.loads((path.parent / "manifest.json").read_text())["nodes"]
    else:
        nodes = json.loads((path.parent / "nodes.json").read_text())
    return EdgesOnDisk(path, nodes, directed=False)


def run(label: str, graph: str, parts: str, seeds: str) -> None:
    """All seeds of one method on one graph; compiled code is loaded before the clock starts."""
    name, settings = VARIANTS[label]
    edges, memory = stream(graph), MEMORY[METHODS[name].streaming]
    with tempfile.TemporaryDirectory(prefix="starling-bench-") as folder:
        warm_up(name, settings, int(parts), Path(folder))
        before = rss_bytes()
        for seed in map(int, seeds.split(",")):
            began = time.monotonic()
            processor = time.process_time()
            task = PartitionTask(edges, int(parts), seed, memory, scratch=Path(folder))
            assignment = make_method(name, settings).assign(task)
            seconds, processor = time.monotonic() - began, time.process_time() - processor
            peak = peak_rss_bytes()
            quality = measure(edges, to_edge_cut(assignment))
            row = {
                "method": label,
                "graph": graph,
                "parts": int(parts),
                "seed": seed,
                "nodes": edges.nodes,
                "edges": edges.edges,
            }
            row |= {name: round(float(value), 5) for name, value in quality.record().items() if value is not None}
            row |= {"seconds": round(seconds, 2), "cpu_seconds": round(processor, 2), "peak_rss_bytes": peak}
            print(json.dumps(row | {"held_bytes": max(0, peak - before)}), flush=True)


def warm_up(name: str, settings: dict[str, str], parts: int, folder: Path) -> None:
    """Let every kernel of the method be loaded."""
    small = edges_of("cora")
    if small.is_file():
        make_method(name, settings).assign(PartitionTask(EdgesOnDisk(small, 2708, directed=False), parts, scratch=folder))


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def key(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["method"], row["graph"], row["parts"]


def table(rows: list[dict[str, Any]]) -> str:
    """Replication factors of all methods side by side, then edge cuts, times and memory."""
    found: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    methods = [label for label in VARIANTS if any(label == method for method, _, _ in found)]
    graphs = [graph for graph in (*REAL, *GENERATED) if any(graph == name for _, name, _ in found)]

    def fewer(label: str, graph: str, parts: int) -> str:
        """How many seeds a cell stands for, where they are fewer than it should have."""
        runs, wanted = found.get((label, graph, parts), []), 1 if label in SAME_FOR_EVERY_SEED else SEEDS
        return f" ({len(runs)})" if 0 < len(runs) < wanted else ""

    def middle(label: str, graph: str, parts: int, what: str) -> float | None:
        runs = found.get((label, graph, parts))
        choose = max if what == "held_bytes" else statistics.median  # a peak is that of all seeds before, too
        return choose(run[what] for run in runs) if runs else None

    sections = ["# Partitioning methods side by side", "", NOTE, ""]
    sections += ["## Replication factor", "", *head("graph", "p", "flock / METIS", *methods)]
    for graph in graphs:
        for parts in PARTS:
            values = [middle(label, graph, parts, "replication_factor") for label in methods]
            best = min((value for value in values if value is not None), default=0.0)
            flock, metis = (middle(label, graph, parts, "replication_factor") for label in ("flock", "metis"))
            ratio = f"{flock / metis:.3f}" if flock and metis else ""
            cells = ["" if v is None else f"**{v:.3f}**" if v == best else f"{v:.3f}" for v in values]
            counts = [fewer(label, graph, parts) for label in methods]
            sections.append(line(graph, parts, ratio, *(cell + count for cell, count in zip(cells, counts, strict=True))))
    sections += ["", "## Graphs that flock was not tuned on", "", HELD_OUT_NOTE, ""]
    sections += head(
        "graph", "p", "flock / METIS", "flock", "metis", "flock, edges cut", "metis, edges cut", "flock, s", "metis, s"
    )
    for graph in HELD_OUT:
        for parts in PARTS:
            copies, cut, seconds = (
                [middle(label, graph, parts, what) for label in ("flock", "metis")]
                for what in ("replication_factor", "edge_cut", "cpu_seconds")
            )
            if None not in copies:
                cells = [f"{copies[0] / copies[1]:.3f}", *(f"{v:.3f}" for v in copies + cut), *(f"{v:.1f}" for v in seconds)]
                sections.append(line(graph, parts, *cells))
    for title, what, form in (
        ("Edge cut", "edge_cut", lambda v: f"{v:.3f}"),
        ("Node balance, max / mean", "node_balance", lambda v: f"{v:.3f}"),
        ("Seconds", "cpu_seconds", lambda v: f"{v:.1f}"),
        ("Memory beyond interpreter and compiled code", "held_bytes", format_bytes),
    ):
        sections += ["", f"## {title}", "", *head("graph", "p", *methods)]
        for graph in graphs:
            for parts in PARTS:
                values = [middle(label, graph, parts, what) for label in methods]
                sections.append(line(graph, parts, *("" if value is None else form(value) for value in values)))
    return "\n".join(sections) + "\n"


NOTE = """Made by `python bench/partition/quality.py`; the runs are in `bench/results/partition_quality.jsonl`. Medians of five
seeds (one run where a method draws nothing; where there are fewer, their number is in brackets). Vertex-cut methods are
measured as training uses them: one owner a node, full neighbour lists. Streaming methods run within `--memory 1GiB`. Seconds
are processor time, all threads together, since several runs shared the machine; flock and metis were run again later, on a
faster one, and should be compared with one another only (`partition_quality_flock_before.jsonl` has flock of the time of the
others). Memory is the peak of the resident set less what the process held before it began (about 170 MiB). Empty cells were
not run: one would take more than ten minutes (Mt-KaHyPar's km1 takes 697 s on dcsbm for p = 4, METIS's volume objective 936 s
for p = 64)."""


HELD_OUT_NOTE = """flock's constants were chosen on graphs of the table above. These four were looked at afterwards, and nothing was
changed for them."""


def head(*names: str) -> list[str]:
    return [line(*names), line(*("---" for _ in names))]


def line(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    main()
