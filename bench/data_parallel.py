"""Data-parallel training: beside DistDGL 1.1.3, what each part of the design brings, and what the cache saves.

    python bench/data_parallel.py distdgl --peers DIR [--graph DIR] --fanouts 25,10 --batch 1024
    python bench/data_parallel.py ablation [--graph DIR | --nodes N --edges E] [--rate 1gbit]
    python bench/data_parallel.py cache [--graph DIR | --nodes N --edges E] [--rate 1gbit]
    python bench/data_parallel.py render        # only write the tables anew

What --peers and --graph hold is said in peers.py. Without --graph a block model is made, 200,000 nodes by default; for the size of
ogbn-products pass --nodes 2400000 --edges 31000000 --features 100 --classes 47 --fanouts 15,10,5.

Both sides: 2 workers of one thread each on this machine, SAGE with 128 hidden columns, Adam, `--batch` targets for each worker and
step. DistDGL times some steps after the first ones. Of Starling's epochs the first (which compiles) is left out, and so is exact
evaluation. Runs take turns, round after round (6, 14 and 10 runs of half a minute or so with the default graph); cells are
medians. The cache's two workers are each on a host of its own, with a link of --rate (network.py; needs root), the ablation's four
on two such hosts. Raw lines go to results/data_parallel.jsonl, in place of those of the same measurement and graph, the tables into
docs/data-parallel.md; with another --output they are printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from command import starling, trained
from data_parallel_tables import TABLES
from doc_tables import write_table
from kept_lines import Line, append_line, drop_lines, read_lines
from network import hosts, trained_over
from peers import block_model, distdgl_lines, imported
from settings import Tables, merge
from starling.core.memory import parse_bytes

RESULTS = Path(__file__).parent / "results" / "data_parallel.jsonl"
WORKERS = 2
ON_EACH = 2
"""Workers on each of the ablation's two hosts, which have a part each: sub-parts are for the workers of a part."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("distdgl", "ablation", "cache", "render"))
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--graph", type=Path)
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()) / "starling-data-parallel")
    for name, default in (("nodes", 200_000), ("edges", 5_000_000), ("features", 128), ("classes", 40), ("hidden", 128)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--fanouts", default="25,10")
    parser.add_argument("--batch", type=int, default=1024, help="targets of a worker and step")
    parser.add_argument("--steps", type=int, default=40, help="timed steps of DistDGL")
    parser.add_argument("--train", type=int, default=60_000, help="training nodes of Starling's epochs, at most")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rate", default="1gbit", help="of each worker's link, for ablation and cache")
    parser.add_argument("--cache", default="32MiB", help="of the last line of the ablation")
    parser.add_argument("--caches", default="0,8MiB,16MiB,32MiB,64MiB")
    parser.add_argument("--output", type=Path, default=RESULTS)
    asked = parser.parse_args()
    if asked.what == "distdgl" and asked.peers is None:
        parser.error("pass --peers, the directory of distdgl_run")
    if asked.what != "render":
        asked.place.mkdir(parents=True, exist_ok=True)
        {"distdgl": beside_distdgl, "ablation": ablation, "cache": caches}[asked.what](asked)
    lines = read_lines(asked.output)
    for name, table in TABLES.items():
        if mine := [line for line in lines if line["what"] == name]:
            if asked.output == RESULTS:
                write_table("data-parallel.md", f"data-{name}", table(mine))
            else:  # a trial
                print(table(mine))


def beside_distdgl(asked: argparse.Namespace) -> None:
    graph = peers_graph(asked)
    parts = partitioned(asked, "flock", WORKERS)
    cases: list[tuple[str, tuple[object, ...]]] = [("starling", ()), ("starling, sockets", ("--transport", "gloo"))]
    keep_others(asked, "distdgl")
    for number in range(asked.rounds):
        write(asked, "distdgl", "distdgl", number, distdgl(asked, graph))
        for case, flags in cases:
            write(asked, "distdgl", case, number, timed(asked, parts, *flags))


def ablation(asked: argparse.Namespace) -> None:
    """Each line adds one thing to the one before it."""
    by_chance, by_flock = partitioned(asked, "random", WORKERS), partitioned(asked, "flock", WORKERS)
    two_levels = partitioned(asked, "flock", WORKERS, sub_parts=ON_EACH)
    anywhere, cache = {"shuffle": "global"}, {"cache": parse_bytes(asked.cache)}
    off, epoch = {"mode": "off"}, {"mode": "epoch"}
    cases: list[tuple[str, Path, Tables]] = [
        ("random parts, targets from anywhere, no pipeline", by_chance, {"team": anywhere, "pipeline": off}),
        ("+ parts by flock", by_flock, {"team": anywhere, "pipeline": off}),
        ("+ targets from the worker's own range", by_flock, {"pipeline": off}),
        ("+ two levels: ranges that are sub-parts", two_levels, {"pipeline": off}),
        ("+ asynchronous pipeline", two_levels, {"pipeline": epoch}),
        ("+ non-stop pipeline", two_levels, {}),
        (f"+ cache of {asked.cache}", two_levels, {"team": cache}),
    ]
    over_links(asked, "ablation", cases, on_each=ON_EACH)


def caches(asked: argparse.Namespace) -> None:
    parts = partitioned(asked, "flock", WORKERS)
    over_links(asked, "cache", [(size, parts, {"team": {"cache": parse_bytes(size)}}) for size in asked.caches.split(",")])


def over_links(asked: argparse.Namespace, what: str, cases: list[tuple[str, Path, Tables]], *, on_each: int = 1) -> None:
    """Cases in turn, round after round, so many workers `on_each` of two hosts."""
    keep_others(asked, what)
    with hosts(WORKERS, asked.rate) as names:
        for number in range(asked.rounds):
            for case, parts, changes in cases:
                tables = merge(settings_of(asked, parts, WORKERS * on_each), changes)
                found = measured(parts, asked, *trained_over(names, tables, on_each=on_each), workers=WORKERS * on_each)
                write(asked, what, case, number, found | {"rate": asked.rate})


def settings_of(asked: argparse.Namespace, parts: Path, workers: int) -> Tables:
    fanouts = [int(fanout) for fanout in asked.fanouts.split(",")]
    return {
        "data": {"path": str(parts.resolve())},
        "model": {"name": "sage", "hidden": asked.hidden, "layers": len(fanouts)},
        "strategy": {"name": "mini", "fanouts": fanouts, "batch_size": workers * asked.batch},
        "optimizer": {"lr": 0.01},
        "run": {"epochs": asked.epochs, "evaluate_every": asked.epochs},
        "team": {"parallel": "data"},
    }


def keep_others(asked: argparse.Namespace, what: str) -> None:
    """Lines of this measurement on this graph are replaced."""
    drop_lines(asked.output, lambda line: (line["what"], line["graph"]) == (what, name_of(asked)))


def write(asked: argparse.Namespace, what: str, case: str, number: int, found: dict[str, Any]) -> None:
    known = {"what": what, "graph": name_of(asked), "case": case, "round": number}
    known |= {"fanouts": asked.fanouts, "batch": asked.batch}
    append_line(asked.output, {**known, **found, "load": os.getloadavg()[0]})
    print(f"{what}, {case}: {found['batches_per_s']:.2f} batches/s", file=sys.stderr, flush=True)


def name_of(asked: argparse.Namespace) -> str:
    return asked.graph.name if asked.graph else f"{asked.nodes:,} nodes"


def size_of(asked: argparse.Namespace) -> dict[str, int]:
    return {name: getattr(asked, name) for name in ("nodes", "edges", "classes", "features")}


def peers_graph(asked: argparse.Namespace) -> Path:
    """The graph as the peers keep it."""
    if asked.graph:
        return asked.graph
    place = asked.place / f"graph-{asked.nodes}"
    return place if place.exists() else block_model(asked.peers, place, **size_of(asked))


def our_graph(asked: argparse.Namespace) -> Path:
    """The same graph as ours, with few enough training nodes for short epochs; a generated one where there are no peers."""
    ours = asked.place / f"ours-{name_of(asked).replace(',', '').replace(' ', '-')}"
    if ours.exists():
        return ours
    if asked.graph or asked.peers:
        return imported(peers_graph(asked), ours, asked.train)
    size = [f"--{name}={value}" for name, value in size_of(asked).items()]
    starling("generate", "dcsbm", *size, "--split", f"{round(100 * asked.train / asked.nodes)}/10/10", "-o", ours)
    return ours


def partitioned(asked: argparse.Namespace, method: str, count: int, *, sub_parts: int = 1) -> Path:
    graph = our_graph(asked)
    parts = graph.with_name(f"{graph.name}-{method}-{count}x{sub_parts}")
    if not parts.exists():
        starling("partition", graph, "-p", count, "--sub-parts", sub_parts, "--method", method, "-o", parts)
    return parts


def timed(asked: argparse.Namespace, parts: Path, *flags: object) -> dict[str, Any]:
    """Batches of all workers a second, over the epochs after the first."""
    layers = len(asked.fanouts.split(","))
    model = ("--model", "sage", "--hidden", asked.hidden, "--layers", layers, "--lr", 0.01)
    batches = ("--strategy", "mini", "--fanouts", asked.fanouts, "--batch-size", WORKERS * asked.batch)
    team = ("--parallel", "data", "--workers", WORKERS, "--threads", 1)
    length = ("--epochs", asked.epochs, "--evaluate-every", asked.epochs)
    return measured(parts, asked, *trained(parts, *model, *batches, *team, *length, *flags))


def measured(
    parts: Path, asked: argparse.Namespace, told: Line, epochs: list[Line], *, workers: int = WORKERS
) -> dict[str, Any]:
    steps = -(-count_of(parts, "train") // (workers * asked.batch))
    seconds = [line["seconds"] for line in epochs[1:]]
    return {
        "batches_per_s": workers * steps / statistics.median(seconds),
        "epoch_seconds": seconds,
        "steps": steps,
        "losses": [line["loss"] for line in epochs],
        "peak_rss_bytes": told["peak_rss_bytes"],
        "bytes_sent_per_epoch": told["bytes_sent_per_epoch"],
        "test": told["test"],
        "workers": epochs[-1]["workers"],
    }


def count_of(parts: Path, split: str) -> int:
    return sum(int(np.count_nonzero(np.load(file))) for file in parts.glob(f"*/nodes/{split}.npy"))


def distdgl(asked: argparse.Namespace, graph: Path) -> dict[str, Any]:
    batches = ("--fanouts", asked.fanouts, "--full-layers", "", "--batch", asked.batch, "--steps", asked.steps)
    lines = distdgl_lines(asked.peers, graph, WORKERS, *batches, "--hidden", asked.hidden, "--timeout", 1200)
    (found,) = [line for line in lines if line["measure"] == "sampled_training"]
    return {key: value for key, value in found.items() if key not in ("graph", "batch", "fanouts")}


if __name__ == "__main__":
    main()
