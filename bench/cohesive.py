"""J(P), the cost of an epoch, of cohesive batches beside random ones and METIS parts, with the paper's constants.

    python bench/cohesive.py --data FOLDER [--graphs cora,pubmed] [--seeds 5]
    python bench/cohesive.py --render           # only write the table anew

Nothing is trained: seconds to minutes a graph. Batches partition all nodes, as in CM-GCN. A cell is the median over seeds of 1 − J
/ J(random); random batches are of equal size, METIS parts and cohesive batches within 3 % and 10 %. Raw lines go to
``results/cohesive.json``, in place of those of the same graphs, the table into docs/cohesive.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from doc_tables import write_table
from starling.core.keyed import permutation, stream_key
from starling.kernels.csr import csr_from_pairs
from starling.partition.contract import PartitionTask
from starling.partition.registry import make_method
from starling.plan.cohesive.find import CohesiveTask, find_batches
from starling.plan.cohesive.strategy import Cohesive
from starling.plan.cost import BatchCosts, GcnCost, gcn_widths
from starling.stream.edges import EdgesInMemory

RESULTS = Path(__file__).parent / "results" / "cohesive.json"
SETTINGS = {"cora": (20, 256), "citeseer": (20, 256), "pubmed": (100, 64), "coauthor_cs": (100, 64)}
"""Batches and hidden columns: 5 % of the nodes in a batch of a small graph, 1 % in others, hidden columns as in the paper."""
MARKS = {"cora": (65, 62, 47), "pubmed": (62, 71, 55), "coauthor_cs": (66, 65, 36)}
"""What METIS parts gave when the work was planned, at 2, 3 and 4 layers."""
LAYERS = (2, 3, 4)


def read_graph(path: Path) -> tuple[EdgesInMemory, int, int]:
    """Edges both ways, features and classes."""
    with np.load(path) as file:
        pairs, nodes = file["edge_index"].T.astype(np.int64), int(file["num_nodes"])
        width = int(file["x_shape"][1]) if "x_shape" in file.files else file["x"].shape[1]
        classes = int(file["y"].max()) + 1
    both = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0).astype(np.int32)
    return EdgesInMemory(both, nodes, directed=False), width, classes


def random_batches(nodes: int, batches: int, seed: int) -> np.ndarray:
    batch = np.empty(nodes, np.int32)
    batch[permutation(stream_key(seed, "bench"), nodes)] = np.arange(nodes) % batches
    return batch


def measure(name: str, data: Path, seeds: int) -> list[dict[str, Any]]:
    edges, width, classes = read_graph(data / f"{name}.npz")
    batches, hidden = SETTINGS[name]
    lists = csr_from_pairs(edges._pairs, edges.nodes)
    lines = []
    for layers in LAYERS:
        widths = gcn_widths(width, hidden, classes, layers)
        costs = BatchCosts(lists, GcnCost(widths))
        settings = Cohesive.Settings(batches=batches, targets="all", clusters_per_batch=1)
        for seed in range(seeds):
            began = time.perf_counter()
            task = CohesiveTask(edges, np.arange(edges.nodes), widths, seed, memory=4 << 30)
            cohesive = find_batches(task, settings)
            seconds = time.perf_counter() - began
            metis = make_method("metis").assign(PartitionTask(edges, batches, seed)).owner
            sizes = np.bincount(cohesive, minlength=batches)
            lines.append(
                {
                    "graph": name,
                    "nodes": edges.nodes,
                    "edges": edges.edges,
                    "batches": batches,
                    "layers": layers,
                    "widths": widths,
                    "seed": seed,
                    "random": costs.of_epoch(random_batches(edges.nodes, batches, seed)),
                    "metis": costs.of_epoch(metis),
                    "cohesive": costs.of_epoch(cohesive),
                    "one_batch": costs.of_epoch(np.zeros(edges.nodes, np.int32)),
                    "smallest": int(sizes.min()),
                    "largest": int(sizes.max()),
                    "seconds": round(seconds, 2),
                }
            )
            print(json.dumps(lines[-1]), flush=True)
    return lines


def table(lines: list[dict[str, Any]]) -> str:
    rows = [
        "| graph, batches | layers | METIS parts | mark | cohesive | least possible | sizes | seeds |",
        "|---|---:|---:|---:|---:|---:|---|---:|",
    ]
    for name in dict.fromkeys(line["graph"] for line in lines):
        for layers in LAYERS:
            some = [line for line in lines if line["graph"] == name and line["layers"] == layers]
            if not some:
                continue

            def saved(kind: str, some: list[dict[str, Any]] = some) -> str:
                return f"{100 * statistics.median(1 - line[kind] / line['random'] for line in some):.1f} %"

            mark = f"{MARKS[name][layers - 2]} %" if name in MARKS else ""
            sizes = f"{min(line['smallest'] for line in some)}–{max(line['largest'] for line in some)}"
            rows.append(
                f"| {name}, {some[0]['batches']} | {layers} | {saved('metis')} | {mark} | **{saved('cohesive')}** | "
                f"{saved('one_batch')} | {sizes} | {len(some)} |"
            )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .npz graphs")
    parser.add_argument("--graphs", default=",".join(SETTINGS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--render", action="store_true", help="write the table from kept lines only")
    options = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    if not options.render:
        for name in options.graphs.split(","):
            kept = [line for line in kept if line["graph"] != name] + measure(name, options.data, options.seeds)
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    write_table("cohesive.md", "cohesive", table(kept))


if __name__ == "__main__":
    main()
