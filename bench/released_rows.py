"""Rows that go on to the next layer block by block, beside whole layers that wait for their last message.

    python bench/released_rows.py 200k=PARTS mesh=DATA/mesh_mdual.npz [--rates 1gbit] [--rounds 3]
    python bench/released_rows.py --render          # only write the table anew

Each place is a parts directory, or a file of edges that is cut into parts, with random features and labels.
A worker a part, of one thread, trains a GCN of three layers; runs with and without blocks take turns. "Early" are rows whose block
waits for none, or not for all, of the other workers: their share says what there is to gain. With --rates each worker is a host of
its own behind a link of that rate (network.py), else they share memory. Medians of all epochs but a run's first, of the worker in
the middle; raw lines go to ``results/released_rows.jsonl``, the table into docs/engine.md.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from command import starling
from doc_tables import write_table
from kept_lines import Line, append_line, drop_lines, read_lines
from network import hosts, trained_over
from starling.comm.team import Team
from starling.engine.hybrid import released
from starling.engine.hybrid.additions import touched
from starling.launch.local import run_workers
from starling.launch.train_worker import train
from starling.store.parts import open_parts
from starling.train.config import RunConfig

RESULTS = Path(__file__).resolve().parent / "results" / "released_rows.jsonl"
ENTRY = f"{Path(__file__).stem}:train_in_blocks"
WAYS = {"whole layers": 1 << 60, "blocks": released.BLOCK_ROWS}


def train_in_blocks(team: Team, spec: dict[str, Any]) -> dict[str, Any]:
    """What every worker does: an ordinary run, with blocks of so many rows, worth it or not."""
    released.BLOCK_ROWS, released.LEAST_COMING, released.LEAST_EARLY = spec["block_rows"], 0.0, 0.0
    return train(team, spec)


def early_rows(path: Path, block_rows: int) -> dict[str, float]:
    """Shares of all rows whose block waits for no other part, or for some but not all."""
    parts, counts = open_parts(path), np.zeros(len(open_parts(path)) + 1)
    for part in range(len(parts)):
        shard = parts.shard(part)
        bounds = np.append(np.arange(0, shard.owned, block_rows), shard.owned)
        offsets = np.asarray(shard.incoming.offsets[: shard.owned + 1])
        neighbours = np.asarray(shard.incoming.neighbours[: offsets[-1]])
        row = np.repeat(np.arange(shard.owned), np.diff(offsets))[neighbours >= shard.owned]
        owner = np.searchsorted(
            parts.offsets, np.asarray(shard.halo_global)[neighbours[neighbours >= shard.owned] - shard.owned], "right"
        )
        waits = np.sum([touched(row[owner == each], bounds) for each in range(1, len(parts) + 1)], axis=0)
        np.add.at(counts, waits, np.diff(bounds))
    return {"none": float(counts[0] / counts.sum()), "some": float(counts[1 : len(parts) - 1].sum() / counts.sum())}


def epochs_of(path: Path, workers: int, way: str, names: list[str], options: argparse.Namespace) -> list[Line]:
    tables: dict[str, dict[str, Any]] = {
        "data": {"path": str(path)},
        "model": {"name": "gcn", "hidden": options.hidden, "layers": options.layers, "dropout": 0.5},
        "run": {"epochs": options.epochs, "evaluate_every": options.epochs},
        "team": {"workers": workers},
    }
    more = {"block_rows": WAYS[way]}
    if names:
        return trained_over(names, tables, entry=ENTRY, **more)[1]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        run.mkdir()
        spec = {"config": RunConfig.from_tables(tables).to_toml(), "run": str(run), **more}
        run_workers(ENTRY, spec, workers=workers, threads=1)
        return read_lines(run / "metrics.jsonl")


def measure(options: argparse.Namespace) -> None:
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parent)  # workers find this file
    for place in options.places:
        name, _, path = place.partition("=")
        with tempfile.TemporaryDirectory(prefix="starling-released-") as folder:
            parts = made_parts(Path(path), Path(folder), options.workers) if path.endswith(".npz") else Path(path).resolve()
            measure_one(name, parts, options)


def made_parts(file: Path, folder: Path, count: int) -> Path:
    """A graph of given edges with 100 random features and 16 random labels, in parts."""
    archive, draw = np.load(file), np.random.default_rng(0)
    nodes = int(archive["num_nodes"])
    np.save(folder / "edges.npy", archive["edge_index"].T)
    np.save(folder / "x.npy", draw.standard_normal((nodes, 100)).astype(np.float32))
    np.save(folder / "y.npy", draw.integers(0, 16, nodes))
    tables = ("--features", folder / "x.npy", "--labels", folder / "y.npy", "--split", "60/20/20")
    starling("import", folder / "edges.npy", "--undirected", *tables, "-o", folder / "graph")
    starling("partition", folder / "graph", "-p", count, "-o", folder / "parts")
    return folder / "parts"


def measure_one(name: str, path: Path, options: argparse.Namespace) -> None:
    workers = len(open_parts(path))
    early = early_rows(path, released.BLOCK_ROWS)
    for rate in options.rates.split(","):
        drop_lines(RESULTS, lambda line, key=(name, workers, rate): (line["graph"], line["workers"], line["link"]) == key)
        for number in range(options.rounds):
            for way in WAYS:
                if rate:
                    with hosts(workers, rate) as names:
                        epochs = epochs_of(path, workers, way, names, options)
                else:
                    epochs = epochs_of(path, workers, way, [], options)
                line = {
                    "seconds": [epoch["seconds"] for epoch in epochs[1:]],
                    "waiting": [statistics.median(w["waiting"] for w in epoch["workers"]) for epoch in epochs[1:]],
                    "held_bytes": max(worker["held_bytes"] for worker in epochs[-1]["workers"]),
                    "peak_rss_bytes": max(worker["peak_rss_bytes"] for worker in epochs[-1]["workers"]),
                    "loss": epochs[-1]["loss"],
                }
                known = {"graph": name, "workers": workers, "link": rate, "way": way, "round": number, "early": early}
                append_line(RESULTS, {**known, **line, "load": os.getloadavg()[0]})
                print(
                    f"{name}, {workers}, {rate}, {way}: {statistics.median(line['seconds']):.3f} s",
                    file=sys.stderr,
                    flush=True,
                )


def table(lines: list[Line]) -> str:
    out = [
        "| graph | workers | link | rows that wait for none / some | whole layers, s | by blocks, s | times | waiting, s |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for key in dict.fromkeys((line["graph"], line["workers"], line["link"]) for line in lines):
        mine = [line for line in lines if (line["graph"], line["workers"], line["link"]) == key]

        def median(way: str, what: str, mine: list[Line] = mine) -> float:
            return statistics.median(value for line in mine if line["way"] == way for value in line[what])

        whole, blocks = (median(way, "seconds") for way in WAYS)
        waits = [median(way, "waiting") for way in WAYS]
        early = mine[-1]["early"]
        out.append(
            f"| {key[0]} | {key[1]} | {key[2] or 'shared memory'} | {early['none']:.0%} / {early['some']:.0%} | {whole:.3f} | "
            f"{blocks:.3f} | {whole / blocks:.2f} | {waits[0]:.3f} → {waits[1]:.3f} |"
        )
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", metavar="NAME=PARTS")
    parser.add_argument("--rates", default="", help="such as 1gbit,100mbit; without, shared memory")
    parser.add_argument("--workers", type=int, default=2, help="parts that a file of edges is cut into, a worker each")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--render", action="store_true", help="only write the table anew")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces go whoever ends this
    if not options.render:
        measure(options)
    write_table("engine.md", "released_rows", table(read_lines(RESULTS)))


if __name__ == "__main__":
    main()
