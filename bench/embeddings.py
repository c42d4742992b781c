"""Training with embeddings beside DGL: a bipartite graph of users and items without features, by two workers.

    python bench/embeddings.py [--dgl-python PY] [--rounds 3] [--users 200000 --items 50000 --edges 10600000]
    python bench/embeddings.py --render            # only write the table of docs/embeddings.md again

Users and items belong to groups, and a user's items are mostly of its own group; the group is what is learnt, from 60 % of nodes.
Every contestant trains a SAGE of two layers on 64 learnt numbers a node, by sparse Adam, with the same targets a step and
fan-outs, in processes of its own, in turns within one run: with DGL 15 runs of --epochs each; run nothing else. Epochs are timed
without evaluation, the first is left out. Lines go to bench/results/embeddings.json, the table into docs/embeddings.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from command import ProgramFailed, printed, starling, trained
from doc_tables import write_table

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "embeddings.json"
GROUPS, OWN_GROUP = 40, 0.7

TITLES = {
    "starling data 2": "Starling, `--parallel data --workers 2`",
    "starling hybrid 2": "Starling, `--parallel hybrid --workers 2`",
    "starling 1": "Starling, one process, 2 threads",
    "dgl 2": "DGL, 2 trainers (`NodeEmbedding`, DDP)",
    "dgl 1": "DGL, one process, 2 threads",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=200_000)
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument(
        "--edges",
        type=int,
        default=10_600_000,
        help="both directions counted, before duplicates are dropped; 5 million pairs of a user and an item are left",
    )
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--batch", type=int, default=1024, help="targets of a step, all workers together")
    parser.add_argument("--fanouts", default="10,10", help="the targets' own neighbours first")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dgl-python", type=Path)
    parser.add_argument("--sides", default=",".join(TITLES))
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--render", action="store_true", help="measure nothing")
    return parser.parse_args()


def make_graph(args: argparse.Namespace, folder: Path) -> None:
    """``graph`` (imported, undirected, with labels and a split) and ``parts`` of it."""
    import numpy as np

    draw, pairs = np.random.default_rng(0), args.edges // 2
    group = draw.integers(0, GROUPS, args.users + args.items)
    user = (args.users * draw.random(pairs) ** 1.5).astype(np.int64)  # some are busier than others
    by_group = np.argsort(group[args.users :], kind="stable")
    bounds = np.searchsorted(group[args.users :][by_group], np.arange(GROUPS + 1))
    start, count = bounds[group[user]], np.diff(bounds)[group[user]]
    own = by_group[start + (count * draw.random(pairs) ** 2).astype(np.int64).clip(0, np.maximum(count - 1, 0))]
    item = np.where(draw.random(pairs) < OWN_GROUP, own, draw.integers(0, args.items, pairs))
    np.save(folder / "edges.npy", np.stack([user, args.users + item], 1).astype(np.int32))
    np.save(folder / "y.npy", group)
    given = ("--undirected", "--labels", folder / "y.npy", "--num-nodes", args.users + args.items, "--split", "60/20/20")
    starling("import", folder / "edges.npy", "-o", folder / "graph", *given)
    starling("partition", folder / "graph", "-o", folder / "parts", "-p", 2)


def line_of(args: argparse.Namespace, folder: Path, side: str) -> dict[str, Any]:
    """A contestant's numbers; a failure of one is recorded, not hidden."""
    try:
        return (starling_line if side.startswith("starling") else dgl_line)(args, folder, side)
    except ProgramFailed as failure:
        return {"failed": failure.stderr[-500:]}


def starling_line(args: argparse.Namespace, folder: Path, side: str) -> dict[str, Any]:
    """Train by the command line; epochs out of the run's metrics."""
    model = ("--model", "sage", "--layers", 2, "--hidden", args.hidden, "--embedding-dim", args.dim, "--lr", 0.01)
    batches = ("--strategy", "mini", "--batch-size", args.batch, "--fanouts", args.fanouts)
    length = ("--epochs", args.epochs, "--evaluate-every", args.epochs)
    alone = side == "starling 1"
    team = () if alone else ("--workers", 2, "--parallel", side.split()[1])
    told, (_, *epochs) = trained(folder / ("graph" if alone else "parts"), *team, *model, *batches, *length)
    seconds = [line["seconds"] for line in epochs]
    return {"epoch_seconds": seconds, "test": told["test"], "peak_rss_bytes": told["peak_rss_bytes"]}


def dgl_line(args: argparse.Namespace, folder: Path, side: str) -> dict[str, Any]:
    """DGL's script on the same graph, in DGL's environment."""
    flags = [f"--{name}={getattr(args, name)}" for name in ("dim", "hidden", "batch", "fanouts", "epochs")]
    told = printed(args.dgl_python, HERE / "embeddings_dgl.py", folder / "graph", "--trainers", side.split()[1], *flags)
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


def measure(args: argparse.Namespace) -> dict[str, Any]:
    sides = [side for side in args.sides.split(",") if side.startswith("starling") or args.dgl_python]
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        began = time.perf_counter()
        make_graph(args, folder)
        made = time.perf_counter() - began
        for turn in range(args.rounds):
            for side in sides:
                load = os.getloadavg()[0]
                lines.append({"side": side, "round": turn, "load": load, **line_of(args, folder, side)})
                print(json.dumps(lines[-1]), file=sys.stderr, flush=True)
    settings = {
        name: getattr(args, name) for name in ("users", "items", "edges", "dim", "hidden", "batch", "fanouts", "epochs")
    }
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    return {"settings": settings, "machine": machine, "making_seconds": round(made, 1), "lines": lines}


def table(document: dict[str, Any]) -> str:
    s = document["settings"]
    rows = [
        f"{s['users']:,} users, {s['items']:,} items, {s['edges']:,} edges (both directions; fewer once duplicates are dropped); "
        f"{s['dim']} learnt numbers a node, SAGE 2 × {s['hidden']}, fan-outs {s['fanouts']}, {s['batch']:,} targets a step; "
        f"{document['machine']}; medians over {1 + max(line['round'] for line in document['lines'])} rounds.",
        "",
        "| | epoch, s | times DGL's best | test accuracy | peak memory of a process, MiB |",
        "|---|---:|---:|---:|---:|",
    ]
    median = {side: _median(document, side) for side in TITLES}
    peers = [value for side, value in median.items() if side.startswith("dgl") and value is not None]
    for side, title in TITLES.items():
        lines = [line for line in document["lines"] if line["side"] == side and "epoch_seconds" in line]
        value = median[side]
        if value is None:
            continue
        ratio = f"{min(peers) / value:.2f}" if peers else "–"
        peak = max(line["peak_rss_bytes"] for line in lines) >> 20
        rows.append(f"| {title} | {value:.2f} | {ratio} | {statistics.median(line['test'] for line in lines):.3f} | {peak:,} |")
    return "\n".join(rows)


def _median(document: dict[str, Any], side: str) -> float | None:
    found = [s for line in document["lines"] if line["side"] == side for s in line.get("epoch_seconds", [])]
    return statistics.median(found) if found else None


def main() -> None:
    args = arguments()
    if not args.render:
        document = measure(args)
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(document, indent=1) + "\n")
    document = json.loads(args.output.read_text())
    print(table(document))
    if args.output == RESULTS:
        write_table("embeddings.md", "embeddings", table(document))


if __name__ == "__main__":
    main()
