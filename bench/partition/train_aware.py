"""Weighing training nodes while flock cuts, or leaving them to the balancing pass: which makes fewer copies in the end?

    python bench/partition/train_aware.py [--data FOLDER] [--graphs pubmed,coauthor_cs] [--parts 8] [--seeds 3]

Training nodes are all nodes of a few classes, so that they lie in a few communities, or as many drawn at random. A training node
weighs 1 + weight × nodes / training nodes, any other 1: with weight 1 both loads count alike, with 0 nothing is aimed at. After
the cut, `--balance train` (5 %) evens out training nodes and nodes whatever the weight was. Writes every run to
bench/results/partition_train_aware.jsonl.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import real_graphs
from numpy.typing import NDArray

from starling.partition.balance import Load, balance
from starling.partition.contract import PartitionTask
from starling.partition.quality import measure
from starling.partition.registry import make_method
from starling.stream.edges import EdgeStream

RESULTS = Path(__file__).resolve().parents[1] / "results" / "partition_train_aware.jsonl"
CLASSES = {"pubmed": (0,), "coauthor_cs": (0, 1, 2)}
"""Classes of which all nodes are training nodes: about a fifth of each graph."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=real_graphs.DATA)
    parser.add_argument("--graphs", default=",".join(CLASSES))
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--weights", default="0,0.25,1")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    rows = []
    for graph in args.graphs.split(","):
        edges = real_graphs.load(graph, args.data)
        for spread, train in masks(graph, args.data).items():
            for weight in map(float, args.weights.split(",")):
                runs = [run(edges, train, args.parts, weight, seed) for seed in range(args.seeds)]
                rows += [{"graph": graph, "train": spread, "parts": args.parts, "weight": weight} | row for row in runs]
                copies = statistics.median(row["replication_factor"] for row in runs)
                print(f"{graph}, training nodes {spread}, weight {weight:g}: {copies:.3f} copies a node", flush=True)
    args.results.write_text("".join(json.dumps(row) + "\n" for row in rows))


def masks(graph: str, data: Path) -> dict[str, NDArray[np.bool_]]:
    """Training nodes in a few classes, and the same number anywhere."""
    with np.load(data / f"{graph}.npz") as file:
        classes = np.isin(file["y"], CLASSES[graph])
    return {"in a few classes": classes, "anywhere": np.random.default_rng(0).permutation(classes)}


def run(edges: EdgeStream, train: NDArray[np.bool_], parts: int, weight: float, seed: int) -> dict[str, Any]:
    """Cut, balance, measure."""
    load = None if weight == 0 else 100 + np.round(train * (100 * weight * len(train) / train.sum())).astype(np.int64)
    cut = make_method("flock").assign(PartitionTask(edges, parts, seed, node_load=load))
    even = balance(cut, edges, [Load("train", train)], seed=seed)
    before, after = measure(edges, cut, train=train), measure(edges, even, train=train)
    return {
        "seed": seed,
        "train_nodes": int(train.sum()),
        "replication_factor_before": round(before.replication_factor, 5),
        "train_balance_before": round(before.train_balance or 1.0, 4),
        "node_balance_before": round(before.node_balance, 4),
        "balance_moves": even.notes["balance_moves"],
        "replication_factor": round(after.replication_factor, 5),
        "train_balance": round(after.train_balance or 1.0, 4),
        "node_balance": round(after.node_balance, 4),
    }


if __name__ == "__main__":
    main()
