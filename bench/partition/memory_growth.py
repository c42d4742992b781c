"""Memory of the streaming methods as nodes and edges grow: measured, each run in a process of its own.

    python bench/partition/memory_growth.py [--nodes 1e6,2e6,4e6] [--edges 1e7,2e7,4e7] [--methods spring,hdrf]

Nodes grow at the fewest edges, edges at the fewest nodes. Writes bench/results/partition_memory.md and .json, in which methods
not measured now stay as they were. `held` is the peak resident memory above what the interpreter and compiled kernels took
before; `state` is the least that the method asked for. flock takes more of the 1 GiB it is given, for windows of more edges.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from starling.core.memory import format_bytes, peak_rss_bytes, rss_bytes
from starling.core.npy import NpyWriter
from starling.partition.contract import PartitionTask
from starling.partition.registry import METHODS, make_method
from starling.stream.edges import BLOCK_EDGES, EdgesOnDisk

RESULTS = Path(__file__).resolve().parents[1] / "results"
PARTS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="1e6,2e6,4e6")
    parser.add_argument("--edges", default="1e7,2e7,4e7")
    parser.add_argument("--methods", default=",".join(name for name, method in METHODS.items() if method.streaming))
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        run(*args.child)
        return
    nodes, edges = ([int(float(text)) for text in given.split(",")] for given in (args.nodes, args.edges))
    sizes = [(n, edges[0]) for n in nodes] + [(nodes[0], e) for e in edges[1:]]
    rows = []
    with tempfile.TemporaryDirectory(prefix="starling-bench-") as folder:
        for n, e in sizes:
            path = Path(folder) / f"{n}-{e}.npy"
            write_graph(path, n, e)
            for method in args.methods.split(","):
                command = [sys.executable, __file__, "--child", method, str(n), str(path), folder]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                rows.append(json.loads(done.stdout))
                print(done.stdout, end="", flush=True)
            path.unlink()
    raw = RESULTS / "partition_memory.json"
    measured = {row["method"] for row in rows}
    known = json.loads(raw.read_text()) if raw.is_file() else []
    rows = [row for row in known if row["method"] not in measured and (row["nodes"], row["edges"]) in sizes] + rows
    raw.write_text(json.dumps(rows, indent=1) + "\n")
    (RESULTS / "partition_memory.md").write_text(report(rows, sizes))


def write_graph(path: Path, nodes: int, edges: int) -> None:
    """An undirected graph with communities of 1,000 in random order, both directions stored, far apart."""
    draw = np.random.default_rng(nodes + edges)
    name = draw.permutation(nodes).astype(np.int32)
    with NpyWriter(path, np.int32, (2,)) as file:
        for start in range(0, edges // 2, BLOCK_EDGES):
            count = min(BLOCK_EDGES, edges // 2 - start)
            u = draw.integers(0, nodes, count)
            near = np.minimum(u // 1000 * 1000 + draw.integers(0, 1000, count), nodes - 1)
            v = np.where(draw.random(count) < 0.8, near, (nodes * draw.random(count) ** 3).astype(np.int64))
            pairs = name[np.stack([u, v], axis=1)]
            file.append(draw.permutation(np.concatenate([pairs, pairs[:, ::-1]])))


def run(method: str, nodes: str, path: str, folder: str) -> None:
    """One method on one graph, kernels compiled beforehand on a tiny one."""
    tiny = Path(folder) / "tiny.npy"
    with NpyWriter(tiny, np.int32, (2,)) as file:
        file.append(np.array([[0, 1], [1, 0], [1, 2], [2, 1]], np.int32))
    make_method(method).assign(PartitionTask(EdgesOnDisk(tiny, 3, directed=False), 2))
    before = rss_bytes()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        edges = EdgesOnDisk(Path(path), int(nodes), directed=False)
        task = PartitionTask(edges, PARTS, memory=1 << 30, scratch=Path(scratch))
        make_method(method).assign(task)
        held = peak_rss_bytes() - before
        needed = make_method(method).memory_needed(task)
    print(json.dumps({"method": method, "nodes": edges.nodes, "edges": edges.edges, "held": held, "state": needed}))


def report(rows: list[dict], sizes: list[tuple[int, int]]) -> str:
    """One row a method, one column a size."""
    heads = [f"{n / 1e6:g} M nodes, {e / 1e6:g} M edges" for n, e in sizes]
    lines = [
        f"# Peak memory of the streaming methods, p = {PARTS}",
        "",
        "Measured above the interpreter / promised beforehand.",
        "",
    ]
    lines += [f"| method | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for method in dict.fromkeys(row["method"] for row in rows):
        found = {(row["nodes"], row["edges"]): row for row in rows if row["method"] == method}
        cells = [" / ".join(format_bytes(found[size][key]) for key in ("held", "state")) for size in sizes]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
