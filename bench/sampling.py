"""Neighbour sampling with relabelling: edges/s of Starling and, in the same run, of DGL.

    python bench/sampling.py GRAPH [--fanouts 25,10] [--batch 1024] [--batches 40] [--threads 2] [--rounds 3]
                             [--dgl "DGL_PYTHON dgl_single.py"] [--output bench/results/sampling.json]

GRAPH holds edges.npy [E, 2] and train.npy [N], as a graph directory of Starling and those of the peers' scripts do. A round is one
measurement of each side, so that a noisy machine is noisy to both; `--dgl` is how the peer's script is started, which is run with
the same graph, fan-outs and threads and prints a JSON line with "measure": "sampling". Work is the same on both sides: blocks with
destinations first among the sources, no features. Prints a Markdown table and writes every measurement.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import shlex
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from command import printed_lines
from starling.core.memory import peak_rss_bytes
from starling.kernels.csr import csr_from_pairs
from starling.plan.batch import BatchPlan
from starling.plan.registry import make_strategy
from starling.plan.source import NeighbourSource
from starling.plan.strategy import Strategy

RESULTS = Path(__file__).parent / "results" / "sampling.json"
WAYS: dict[str, dict[str, object]] = {
    "uniform": {},
    "uniform, with replacement": {"replace": True},
    "weighted": {"sampling": "weighted"},
    "weighted, with replacement": {"sampling": "weighted", "replace": True},
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--fanouts", default="25,10", help="from the targets outward")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dgl", default="", help="how to start the peer's script")
    parser.add_argument("--output", type=Path, default=RESULTS)
    return parser.parse_args()


def read(directory: Path) -> tuple[NeighbourSource, np.ndarray]:
    train = np.load(directory / "train.npy")
    incoming = csr_from_pairs(np.load(directory / "edges.npy", mmap_mode="r").astype(np.int32), len(train))
    weight = np.random.default_rng(0).random(len(incoming.neighbours), np.float32)
    return NeighbourSource(incoming, len(train), None, weight), np.flatnonzero(train)


def endless(strategy: Strategy, batch: int) -> Iterator[BatchPlan]:
    """Whole batches, epoch after epoch."""
    for epoch in itertools.count():
        yield from (plan for plan in strategy.plans(epoch) if len(plan.targets) == batch)


def measure(strategy: Strategy, batch: int, batches: int) -> dict[str, object]:
    stream = endless(strategy, batch)
    for _ in itertools.islice(stream, 3):
        pass
    edges = inputs = 0
    begin, processor = time.perf_counter(), time.process_time()
    for plan in itertools.islice(stream, batches):
        edges += sum(len(block.neighbours) for block in plan.blocks)
        inputs += len(plan.inputs)
    seconds, processor = time.perf_counter() - begin, time.process_time() - processor
    return {
        "edges_per_s": round(edges / seconds),
        "edges_per_cpu_s": round(edges / processor),
        "batches_per_s": round(batches / seconds, 2),
        "edges_per_batch": edges // batches,
        "inputs_per_batch": inputs // batches,
        "peak_rss_bytes": peak_rss_bytes(),
    }


def measure_dgl(args: argparse.Namespace) -> dict[str, object]:
    program = shlex.split(args.dgl)
    flags = [f"--{name}={getattr(args, name)}" for name in ("threads", "fanouts", "batch", "batches")]
    lines = printed_lines(*program, args.graph, "--measures", "sampling", *flags, cwd=Path(program[-1]).parent)
    return next(line for line in lines if line.get("measure") == "sampling")


def main() -> None:
    args = arguments()
    graph, train = read(args.graph)
    strategies = {
        name: make_strategy(
            "mini",
            {"fanouts": args.fanouts, "batch_size": args.batch, **way},
            graph,
            train,
            len(args.fanouts.split(",")),
            threads=args.threads,
        )
        for name, way in WAYS.items()
    }
    measured: list[dict[str, object]] = []
    for turn in range(args.rounds):
        for name, strategy in strategies.items():
            measured.append({"side": f"starling, {name}", "round": turn, **measure(strategy, args.batch, args.batches)})
        if args.dgl:
            measured.append({"side": "dgl", "round": turn, **measure_dgl(args)})
        measured[-1]["load"] = os.getloadavg()[0]
    asked = {
        key: str(value) if isinstance(value, Path) else value
        for key, value in vars(args).items()
        if key not in ("dgl", "output")
    }
    asked["graph"] = args.graph.name
    args.output.parent.mkdir(parents=True, exist_ok=True)
    record = {"settings": asked, "machine": f"{platform.machine()}, {os.cpu_count()} cores", "measured": measured}
    args.output.write_text(json.dumps(record, indent=1) + "\n")
    print("| sampler | M edges/s, median | best | M edges per CPU second |\n|---|---|---|---|")
    for side in dict.fromkeys(str(row["side"]) for row in measured):
        rates = [float(str(row["edges_per_s"])) / 1e6 for row in measured if row["side"] == side]
        busy = [
            float(str(row["edges_per_cpu_s"])) / 1e6 for row in measured if row["side"] == side and "edges_per_cpu_s" in row
        ]
        print(f"| {side} | {statistics.median(rates):.1f} | {max(rates):.1f} | {f'{max(busy):.1f}' if busy else '–'} |")


if __name__ == "__main__":
    main()
