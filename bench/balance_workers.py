"""Waiting of workers with cohesive batches computed by owners and by balanced maps, layer asynchrony on and off.

    python bench/balance_workers.py --data FOLDER      # about seven minutes on two cores; run nothing else
    python bench/balance_workers.py --data FOLDER --graphs cora --epochs 2 --rounds 1 --results trial.jsonl --print
    python bench/balance_workers.py --render           # only write the table anew

Every line is a run of ``starling train --strategy cohesive`` on flock parts, one thread a worker; the four take turns, round after
round. Waiting is the sum over workers of seconds spent waiting for a message or in the reduction that ends a step, where whoever
has more to compute is waited for; a median over epochs without each run's first, and a share of workers × epoch. Raw lines go to
``results/balance_workers.jsonl``, in place of those of the same graphs and settings, the table into docs/cohesive.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from cohesive import SETTINGS
from cohesive_training import prepared
from command import starling, trained
from doc_tables import write_table
from kept_lines import append_line, drop_lines, read_lines

RESULTS = Path(__file__).parent / "results" / "balance_workers.jsonl"


def timed(parts: Path, name: str, balanced: bool, overlap: str, options: argparse.Namespace) -> dict[str, Any]:
    batches, hidden = SETTINGS[name]
    told, (_, *lines) = trained(
        parts, "--model", "gcn", "--layers", options.layers, "--hidden", hidden, "--epochs", options.epochs,
        "--evaluate-every", options.epochs, "--strategy", "cohesive", "--batches", batches, "--workers", options.workers,
        "--threads", 1, "--overlap", overlap, *(["--balance-workers"] if balanced else []),
    )  # fmt: skip
    return {
        "graph": name,
        "workers": options.workers,
        "layers": options.layers,
        "balanced": balanced,
        "overlap": overlap,
        "epoch_seconds": statistics.median(line["seconds"] for line in lines),
        "waiting_seconds": statistics.median(sum(w["waiting"] + w["reducing"] for w in line["workers"]) for line in lines),
        "compute_seconds": [statistics.median(line["workers"][w]["compute"] for line in lines) for w in range(options.workers)],
        "bytes": told["bytes_sent_per_epoch"],
        "final_loss": told["final_loss"],
        "peak_rss_bytes": told["peak_rss_bytes"],
    }


def measure(options: argparse.Namespace) -> None:
    names = options.graphs.split(",")
    same = (options.workers, options.layers)
    drop_lines(options.results, lambda line: line["graph"] in names and (line["workers"], line["layers"]) == same)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            graph, _ = prepared(name, options.data, Path(folder), 0)
            parts = Path(folder) / "parts"
            starling("partition", graph, "-p", options.workers, "-o", parts)
            for _, balanced, overlap in itertools.product(range(options.rounds), (False, True), ("on", "off")):
                line = timed(parts, name, balanced, overlap, options)
                append_line(options.results, line)
                print(json.dumps(line), flush=True)


def table(lines: list[dict[str, Any]]) -> str:
    rows = [
        "| graph | workers | layers | computed by | overlap | epoch, s | waiting, s | share | waiting saved | sent an epoch, MiB |",
        "|---|---:|---:|---|---|---:|---:|---:|---:|---:|",
    ]
    for key in dict.fromkeys((line["graph"], line["workers"], line["layers"]) for line in lines):
        some = [line for line in lines if (line["graph"], line["workers"], line["layers"]) == key]
        if len({(line["balanced"], line["overlap"]) for line in some}) < 4:
            continue  # a measurement that was broken off

        def cell(balanced: bool, overlap: str, field: str, some: list[dict[str, Any]] = some) -> float:
            return statistics.median(
                line[field] for line in some if line["balanced"] == balanced and line["overlap"] == overlap
            )

        for balanced, overlap in itertools.product((False, True), ("on", "off")):
            seconds, waiting = cell(balanced, overlap, "epoch_seconds"), cell(balanced, overlap, "waiting_seconds")
            saved = f"{100 * (1 - waiting / cell(False, overlap, 'waiting_seconds')):.0f} %" if balanced else ""
            rows.append(
                f"| {key[0]} | {key[1]} | {key[2]} | {'map' if balanced else 'owners'} | {overlap} | {seconds:.3f} | "
                f"{waiting:.3f} | {100 * waiting / (key[1] * seconds):.0f} % | {saved} | "
                f"{cell(balanced, overlap, 'bytes') / 2**20:.1f} |"
            )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .npz graphs")
    parser.add_argument("--graphs", default="cora,pubmed,coauthor_cs")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--print", action="store_true", dest="show", help="print the table, leave the docs alone")
    parser.add_argument("--render", action="store_true", help="write the table from kept lines only")
    options = parser.parse_args()
    if not options.render:
        measure(options)
    text = table(read_lines(options.results))
    if options.show:
        print(text)
    else:
        write_table("cohesive.md", "balance_workers", text)


if __name__ == "__main__":
    main()
