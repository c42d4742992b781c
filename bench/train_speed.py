"""Training and inference speed of Starling beside DGL and PyG, on one graph, in turns within one run.

    python bench/train_speed.py --peers DIR [--graph DIR] [--dgl-python PY] [--pyg-python PY] [--cases sage,gcn] [--rounds 3]
    python bench/train_speed.py --render           # only write the tables of docs/speed.md again

The timed epochs alone of all cases and sides are twenty minutes; run nothing else. DIR of --peers holds graph.py, weights.py,
dgl_single.py and pyg_single.py. Without --graph the 200,000-node block model is made by graph.py; a graph directory holds edges,
x, y, train and test as .npy files. In every round each contestant runs once, in a process of its own, so that a noisy machine is
noisy to all. Cases that are measured replace those of the same name in bench/results/train_speed.json; the tables go into
docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from command import starling
from doc_tables import write_table
from peers import block_model
from train_speed_tables import all_tables

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "train_speed.json"
STARLING = HERE / "train_speed_starling.py"
SIZE = {"nodes": 200_000, "edges": 5_000_000, "classes": 40, "features": 128, "seed": 0}
"""The block model of the tables."""
PARTS = 40
"""Parts of the partition whose node order the `community` rows use: about what fits a second-level cache each."""


@dataclass(frozen=True)
class Case:
    """One job given to all sides; `variants` are Starling's ways to do it: with and without reuse, in either node order."""

    arguments: tuple[str, ...]
    variants: tuple[tuple[str, ...], ...] = ((), ("--no-reuse",))
    pyg: bool = True
    alone: bool = False
    """Nothing to compare with."""


CASES = {
    "sage": Case(("--models", "sage", "--measures", "full,inference")),
    "deep": Case(("--models", "sage", "--measures", "full", "--layers", "3", "--hidden", "256", "--epochs", "3")),
    "gcn": Case(("--models", "gcn", "--measures", "full,inference")),
    "gat": Case(("--models", "gat", "--measures", "full,inference", "--epochs", "2"), ((),), pyg=False),
    "sampled": Case(("--measures", "sampling,training"), ((),)),
    "limits": Case(("--measures", "limits"), ((),), pyg=False, alone=True),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--graph", type=Path)
    parser.add_argument("--order", type=Path, help="a node order made before; else one is made by `starling partition`")
    parser.add_argument("--dgl-python", type=Path)
    parser.add_argument("--pyg-python", type=Path)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pyg-rounds", type=int, default=1, help="PyG takes several times as long")
    parser.add_argument("--pyg-adjacency", choices=("auto", "sparse_tensor", "torch_csr", "edge_index"), default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--render", action="store_true", help="measure nothing")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    if not args.render and args.peers is None and args.graph is None:
        parser.error("pass --peers, --graph or both: there is no graph to measure on")
    return args


def make_order(graph: Path, directory: Path) -> tuple[Path, float]:
    """The order in which `starling partition` numbers the nodes, and how long that took."""
    nodes = len(np.load(graph / "y.npy", mmap_mode="r"))
    imported, parts = directory / "imported", directory / "parts"
    began = time.perf_counter()
    starling("import", graph / "edges.npy", "-o", imported, "--num-nodes", nodes)
    starling("partition", imported, "-o", parts, "-p", PARTS)
    return parts / "position_of_global.npy", time.perf_counter() - began


def lines_of(command: list[str], threads: int) -> list[dict[str, Any]]:
    """What a contestant printed; a failure of one is recorded, not hidden."""
    given = {name: str(threads) for name in ("OMP_NUM_THREADS", "STARLING_THREADS")}
    ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **given})
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    if ended.returncode:
        lines.append({"measure": "failed", "status": ended.returncode, "error": ended.stderr[-500:]})
    return lines


def measure_case(name: str, args: argparse.Namespace, graph: Path, order: Path) -> list[dict[str, Any]]:
    """All rounds of one case."""
    case, measured = CASES[name], []
    common = [str(graph), "--threads", str(args.threads), *case.arguments]
    for turn in range(args.rounds):
        contestants: list[tuple[str, list[str]]] = []
        if args.dgl_python and not case.alone:
            contestants.append(("dgl", [str(args.dgl_python), str(args.peers / "dgl_single.py"), *common]))
        for variant in case.variants:
            weights = ["--weights", str(args.peers)] if args.peers else []
            own = [sys.executable, str(STARLING), *common, *weights, *variant]
            contestants.append(("starling", own))
            if not case.alone:
                contestants.append(("starling", [*own, "--order", str(order)]))
        if args.pyg_python and case.pyg and turn < args.pyg_rounds:
            how = ["--adjacency", args.pyg_adjacency]
            contestants.append(("pyg", [str(args.pyg_python), str(args.peers / "pyg_single.py"), *common, *how]))
        for side, command in contestants:
            load = os.getloadavg()[0]
            for line in lines_of(command, args.threads):
                print(json.dumps({"case": name, "round": turn, "load": load, **line}), file=sys.stderr, flush=True)
                measured.append({"case": name, "side": side, "round": turn, "load": load, **line})
    return measured


def main() -> None:
    args = arguments()
    if not args.render:
        before = json.loads(args.output.read_text()) if args.output.exists() else {"cases": {}}
        with tempfile.TemporaryDirectory() as scratch:
            graph = args.graph or block_model(args.peers, Path(scratch) / "graph", **SIZE)
            order, seconds = (args.order, None) if args.order else make_order(graph, Path(scratch))
            for name in args.cases.split(","):
                measured = measure_case(name, args, graph, order)
                before["cases"][name] = measured
                if seconds is not None:
                    before["order_seconds"] = round(seconds, 1)
                before["machine"] = f"{platform.machine()}, {os.cpu_count()} cores"
                before["threads"] = args.threads
                args.output.parent.mkdir(parents=True, exist_ok=True)
                args.output.write_text(json.dumps(before, indent=1) + "\n")
    text = all_tables(json.loads(args.output.read_text()))
    write_table("speed.md", "train_speed", text)
    print(text)


if __name__ == "__main__":
    main()
