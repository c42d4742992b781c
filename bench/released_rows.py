"""Rows that are computed, and go on to the next layer, as their messages come, beside whole layers that wait for the last one.

    python bench/released_rows.py ego_twitter=DATA/ego_twitter.npz [--workers 2] [--rates ,1gbit,300mbit] [--epochs 42]
    python bench/released_rows.py 200k=PARTS --model gat --layers 2
    python bench/released_rows.py --render          # only write the table anew

Each place is a parts directory, or a file of edges that is cut into as many parts as there are workers, with random features and
labels (`--vertex-cut hdrf` by edges). A worker a part, of one thread, trains a model, an epoch by whole layers and one by blocks or
groups of rows in turn. A rate gives each worker a host of its own behind a link of that rate (network.py); an empty one is shared
memory. "Times" is the median over pairs of epochs that follow one another. What a block costs whatever its size is measured too.
Raw lines go to ``results/released_rows.jsonl``, where they take the place of older ones of the same case, the table into
docs/engine.md.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from command import starling
from doc_tables import write_table
from kept_lines import Line, append_line, drop_lines, read_lines
from network import hosts, trained_over
from starling.comm.team import Team
from starling.engine.hybrid.computing import view
from starling.engine.hybrid.computing.block_work import BlockWork
from starling.engine.hybrid.layers.row_groups import RowGroup
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.engine.hybrid.share.worker_graph import open_worker_graph
from starling.launch.local import run_workers
from starling.launch.train_worker import train
from starling.nn.row_work import Node, NodeLayout, RowWork
from starling.store.parts import open_parts
from starling.train.config import RunConfig

RESULTS = Path(__file__).resolve().parent / "results" / "released_rows.jsonl"
ENTRY = f"{Path(__file__).stem}:train_in_turns"
WARM = 2
"""Epochs that do not count."""


def train_in_turns(team: Team, spec: dict[str, Any]) -> dict[str, Any]:
    """What every worker does: an ordinary run, with blocks of rows, and groups, in every other step."""
    groups = view.TeamView.groups

    def in_turns(self: view.TeamView, rows: torch.Tensor) -> tuple[RowGroup, ...]:
        assert isinstance(self.exchange, TeamExchange)
        return groups(self, rows) if _has_its_turn(self.exchange) else ()

    view.worth_releasing = lambda together: _has_its_turn(together.exchange)
    view.TeamView.groups = in_turns
    return train(team, spec)


def _has_its_turn(exchange: TeamExchange) -> bool:
    return exchange.calls.step % 2 == 1


def shares(path: Path) -> dict[str, float]:
    """Rows that come from other parts, and own rows that wait for none of them, to each row of the graph."""
    parts, coming, inner = open_parts(path), 0, 0
    for worker in range(len(parts)):
        graph = open_worker_graph(parts, worker, len(parts))
        offsets = graph.incoming.offsets[: graph.owned + 1]
        others = graph.incoming.neighbours[: offsets[-1]] >= graph.owned
        coming += graph.traffic.mirrors
        inner += graph.owned - len(np.unique(np.repeat(np.arange(graph.owned), np.diff(offsets))[others]))
    return {"coming": coming / parts.manifest.nodes, "inner": inner / parts.manifest.nodes}


def epochs_of(path: Path, workers: int, names: list[str], options: argparse.Namespace) -> list[Line]:
    tables: dict[str, dict[str, Any]] = {
        "data": {"path": str(path)},
        "model": {"name": options.model, "hidden": options.hidden, "layers": options.layers, "dropout": 0.5},
        "run": {"epochs": options.epochs + WARM, "evaluate_every": options.epochs + WARM},
        "team": {"workers": workers},
    }
    if names:
        return trained_over(names, tables, entry=ENTRY)[1]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        run.mkdir()
        run_workers(ENTRY, {"config": RunConfig.from_tables(tables).to_toml(), "run": str(run)}, workers=workers, threads=1)
        return read_lines(run / "metrics.jsonl")


def block_price(blocks: int = 64, repeats: int = 20) -> float:
    """Seconds that a block costs forward and backward if it has next to no rows: the least of some repeats."""
    torch.set_num_threads(1)
    layer, bounds, spent = torch.nn.Linear(8, 8), np.arange(blocks + 1) * 4, []

    def update(_first: int, _node: Node, aggregate: torch.Tensor) -> Node:
        rows = torch.relu_(aggregate + layer.bias) @ layer.weight
        return Node(rows, rows)

    for _ in range(repeats):
        sums = torch.randn(4 * blocks, 8)
        work = BlockWork(RowWork(update, (layer,)), bounds, NodeLayout(multiplied=True), recorded=True)
        began = time.perf_counter()
        work.begin((sums.clone(),), sum_learns=True, learns={0}, weights=tuple(layer.parameters()))
        for block in range(blocks):
            work.run(block, sums)
        saved, (rows,) = work.put_away(), work.take_results()
        work.begin_backward(saved, (torch.ones_like(rows),), sums)
        for block in range(blocks):
            work.run_backward(block)
        work.end_backward([True, True])
        spent.append((time.perf_counter() - began) / blocks)
    return min(spent)


def measure(options: argparse.Namespace) -> None:
    drop_lines(RESULTS, lambda line: "block_price_seconds" in line)
    append_line(RESULTS, {"block_price_seconds": block_price()})
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parent)  # workers find this file
    for place in options.places:
        name, _, path = place.partition("=")
        with tempfile.TemporaryDirectory(prefix="starling-released-") as folder:
            parts = made_parts(Path(path), Path(folder), options) if path.endswith(".npz") else Path(path).resolve()
            measure_one(name, parts, options)


def made_parts(file: Path, folder: Path, options: argparse.Namespace) -> Path:
    """A graph of given edges with 100 random features and 16 random labels, in parts."""
    archive, draw = np.load(file), np.random.default_rng(0)
    nodes = int(archive["num_nodes"])
    np.save(folder / "edges.npy", archive["edge_index"].T)
    np.save(folder / "x.npy", draw.standard_normal((nodes, 100)).astype(np.float32))
    np.save(folder / "y.npy", draw.integers(0, 16, nodes))
    tables = ("--features", folder / "x.npy", "--labels", folder / "y.npy", "--split", "60/20/20")
    starling("import", folder / "edges.npy", "--undirected", *tables, "-o", folder / "graph")
    how = ("--method", options.vertex_cut, "--keep-vertex-cut") if options.vertex_cut else ()
    starling("partition", folder / "graph", "-p", options.workers, *how, "-o", folder / "parts")
    return folder / "parts"


def measure_one(name: str, path: Path, options: argparse.Namespace) -> None:
    workers = len(open_parts(path))
    for rate in options.rates.split(","):
        known = {"graph": name, "workers": workers, "link": rate, "model": options.model, "layers": options.layers}
        known["kind"] = open_parts(path).manifest.kind
        if rate:
            with hosts(workers, rate) as names:
                epochs = epochs_of(path, workers, names, options)
        else:
            epochs = epochs_of(path, workers, [], options)
        line: Line = {**known, **shares(path), "load": os.getloadavg()[0]}
        for first, way in enumerate(("whole", "blocks")):
            mine = epochs[WARM + first :: 2]
            line[way] = [epoch["seconds"] for epoch in mine]
            line[f"{way}_waiting"] = [statistics.median(worker["waiting"] for worker in epoch["workers"]) for epoch in mine]
        drop_lines(RESULTS, lambda line, known=known: known.items() <= {"kind": "edge-cut", **line}.items())
        append_line(RESULTS, line)
        print(row(line), file=sys.stderr, flush=True)


def row(line: Line) -> str:
    median = statistics.median
    times = 1 / median(blocks / whole for whole, blocks in zip(line["whole"], line["blocks"], strict=True))
    kind = "" if line.get("kind", "edge-cut") == "edge-cut" else ", vertex-cut"
    return (
        f"| {line['graph']}{kind} | {line['model']} | {line['workers']} | {line['link'] or 'shared memory'} | "
        f"{line['coming']:.2f} | {line['inner']:.0%} | "
        f"{median(line['whole']):.3f} | {median(line['blocks']):.3f} | {times:.2f} | {median(line['whole_waiting']):.3f} → "
        f"{median(line['blocks_waiting']):.3f} |"
    )


def table(lines: list[Line]) -> str:
    head = (
        "| graph | model | workers | link | rows that come | inner rows | whole layers, s | by blocks, s | times | waiting, s |"
    )
    return "\n".join(
        [head, "|---|---|---:|---|---:|---:|---:|---:|---:|---:|", *(row(line) for line in lines if "graph" in line)]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", metavar="NAME=PLACE")
    parser.add_argument("--rates", default="", help="such as 1gbit,100mbit, or nothing for shared memory")
    parser.add_argument("--workers", type=int, default=2, help="parts that a file of edges is cut into")
    parser.add_argument(
        "--vertex-cut", metavar="METHOD", help="cut a file of edges by this method, and keep masters and mirrors"
    )
    parser.add_argument("--model", default="gcn")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=42)
    parser.add_argument("--render", action="store_true", help="only write the table anew")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces go whoever ends this
    if not options.render:
        measure(options)
    write_table("engine.md", "released_rows", table(read_lines(RESULTS)))


if __name__ == "__main__":
    main()
