"""Full-neighbour training on cohesive batches beside random ones, as CM-GCN's Table III: time and accuracy at 2, 3 and 4 layers.

    python bench/cohesive_training.py --data FOLDER [--graphs cora,pubmed] [--seeds 4] [--epochs 50] [--workers 1]
    python bench/cohesive_training.py --render  # only write the table anew

A GCN with the paper's split (70 / 20 / 10), hidden columns (256, and 64 on larger graphs), batches (20, and 100) and dropout
(0.1). Both sides have equally many batches of the training nodes. A graph is 24 runs, in which the two take turns; run nothing
else. Seconds are medians of epochs without each run's first, accuracy is the mean over seeds at the best validation epoch;
`rest_seconds` is what a run takes beside its epochs, which for cohesive batches includes finding them. Raw lines are added to
``results/cohesive_training.jsonl``, the table goes into docs/cohesive.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from cohesive import LAYERS, SETTINGS
from command import trained
from doc_tables import write_table
from kept_lines import append_line, read_lines
from starling.store.graph import create_graph
from starling.stream.readers.open import open_inputs

RESULTS = Path(__file__).parent / "results" / "cohesive_training.jsonl"


def prepared(name: str, data: Path, folder: Path, seed: int) -> tuple[Path, int]:
    """The graph directory with a random split of the labelled nodes, and how many train."""
    with np.load(data / f"{name}.npz") as file:
        arrays = {key: file[key] for key in file.files if not key.endswith(("_mask", "_masks")) and key != "meta"}
    labelled = np.random.default_rng(seed).permutation(np.flatnonzero(arrays["y"] >= 0))
    cuts = (0, int(0.7 * len(labelled)), int(0.9 * len(labelled)), len(labelled))
    for split, start, stop in zip(("train", "val", "test"), cuts, cuts[1:], strict=False):
        mask = np.zeros(len(arrays["y"]), np.bool_)
        mask[labelled[start:stop]] = True
        arrays[f"{split}_mask"] = mask
    npz, place = folder / f"{name}-{seed}.npz", folder / f"{name}-{seed}"
    np.savez(npz, **arrays)
    create_graph(open_inputs([str(npz)], memory=1 << 30), place)
    return place, cuts[1]


def timed(
    graph: Path, side: str, layers: int, options: argparse.Namespace, batches: int, hidden: int, targets: int
) -> dict[str, Any]:
    strategy = ("cohesive", "--batches", batches) if side == "cohesive" else ("mini", "--batch-size", -(-targets // batches))
    told, lines = trained(
        graph, "--model", "gcn", "--layers", layers, "--hidden", hidden, "--dropout", 0.1, "--epochs", options.epochs,
        "--evaluate-every", 5, "--lr", 0.005, "--workers", options.workers, "--strategy", *strategy,
    )  # fmt: skip
    epochs = [line["seconds"] for line in lines[1:]]
    evaluating = sum(line["evaluate_seconds"] for line in lines)
    finding = told["seconds"] - sum(line["seconds"] for line in lines) - evaluating
    return {"epoch_seconds": statistics.median(epochs), "test": told["test"], "rest_seconds": round(finding, 2)}


def measure(options: argparse.Namespace) -> None:
    for name in options.graphs.split(","):
        batches, hidden = SETTINGS[name]
        for seed in range(options.seeds):
            with tempfile.TemporaryDirectory() as folder:
                graph, targets = prepared(name, options.data, Path(folder), seed)
                for layers in LAYERS:
                    for side in ("random", "cohesive"):
                        line = timed(graph, side, layers, options, batches, hidden, targets)
                        line |= {"graph": name, "layers": layers, "side": side, "seed": seed, "workers": options.workers}
                        line |= {"epochs": options.epochs, "batches": batches}
                        append_line(RESULTS, line)
                        print(json.dumps(line), flush=True)


def table(lines: list[dict[str, Any]]) -> str:
    rows = [
        "| graph, batches | workers | layers | random: epoch, s | accuracy | cohesive: epoch, s | accuracy | speedup |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    keys = dict.fromkeys((line["graph"], line["batches"], line["workers"], line["layers"]) for line in lines)
    for key in keys:
        some = [line for line in lines if (line["graph"], line["batches"], line["workers"], line["layers"]) == key]
        sides = {side: [line for line in some if line["side"] == side] for side in ("random", "cohesive")}
        if not all(sides.values()):
            continue
        seconds = {side: statistics.median(line["epoch_seconds"] for line in of) for side, of in sides.items()}
        scores = {
            side: f"{100 * statistics.mean(s := [line['test'] for line in of]):.1f} ± {100 * statistics.pstdev(s):.1f}"
            for side, of in sides.items()
        }
        rows.append(
            f"| {key[0]}, {key[1]} | {key[2]} | {key[3]} | {seconds['random']:.3f} | {scores['random']} | "
            f"{seconds['cohesive']:.3f} | {scores['cohesive']} | {seconds['random'] / seconds['cohesive']:.2f} × |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .npz graphs")
    parser.add_argument("--graphs", default=",".join(SETTINGS))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--render", action="store_true", help="write the table from kept lines only")
    options = parser.parse_args()
    if not options.render:
        measure(options)
    write_table("cohesive.md", "cohesive_training", table(read_lines(RESULTS)))


if __name__ == "__main__":
    main()
