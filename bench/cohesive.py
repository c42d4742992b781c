"""J(P), the cost of an epoch, of cohesive batches beside random ones and METIS parts, with the paper's constants.

    python bench/cohesive.py --data FOLDER [--graphs cora,pubmed] [--seeds 5]
    python bench/cohesive.py --render           # only write the table anew

Nothing is trained: seconds to some minutes a run. Batches partition all nodes, as in CM-GCN. A cell is the median over seeds of
1 − J / J(random); random batches are of equal size, METIS parts and cohesive batches within 3 % and 10 %. Raw lines go to
``results/cohesive.jsonl``, where what is there already is not done again, the table into docs/cohesive.md.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from doc_tables import write_table
from kept_lines import resume
from starling.core.keyed import permutation, stream_key
from starling.kernels.csr import csr_from_pairs
from starling.partition.contract import PartitionTask
from starling.partition.registry import make_method
from starling.plan.cohesive.find import CohesiveTask, find_batches
from starling.plan.cohesive.strategy import Cohesive
from starling.plan.cost import BatchCosts, GcnCost, gcn_widths
from starling.stream.edges import EdgesInMemory

RESULTS = Path(__file__).parent / "results" / "cohesive.jsonl"
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


@dataclass(frozen=True)
class Run:
    """Batches of one graph for a model of so many layers."""

    graph: str
    layers: int
    seed: int

    @property
    def key(self) -> str:
        return f"{self.graph}/{self.layers}/{self.seed}"


def measure(run: Run, data: Path) -> dict[str, Any]:
    """J of all kinds of batches; a JSON line."""
    edges, width, classes = read_graph(data / f"{run.graph}.npz")
    batches, hidden = SETTINGS[run.graph]
    widths = gcn_widths(width, hidden, classes, run.layers)
    costs = BatchCosts(csr_from_pairs(edges._pairs, edges.nodes), GcnCost(widths))
    began = time.perf_counter()
    task = CohesiveTask(edges, np.arange(edges.nodes), widths, run.seed, memory=4 << 30)
    cohesive = find_batches(task, Cohesive.Settings(batches=batches, targets="all", clusters_per_batch=1))
    seconds = time.perf_counter() - began
    found = {
        "random": random_batches(edges.nodes, batches, run.seed),
        "metis": make_method("metis").assign(PartitionTask(edges, batches, run.seed)).owner,
        "cohesive": cohesive,
        "one_batch": np.zeros(edges.nodes, np.int32),
    }
    sizes = np.bincount(cohesive, minlength=batches)
    return {
        **{"key": run.key, **vars(run), "nodes": edges.nodes, "edges": edges.edges, "batches": batches, "widths": widths},
        **{name: costs.of_epoch(batch) for name, batch in found.items()},
        **{"smallest": int(sizes.min()), "largest": int(sizes.max()), "seconds": round(seconds, 2)},
    }


def table(lines: list[dict[str, Any]]) -> str:
    rows = [
        "| graph, batches | layers | METIS parts | mark | cohesive | least possible | sizes | seeds |",
        "|---|---:|---:|---:|---:|---:|---|---:|",
    ]
    for name in SETTINGS:
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
    wanted = itertools.product(range(0 if options.render else options.seeds), options.graphs.split(","), LAYERS)
    runs = (Run(graph, layers, seed) for seed, graph, layers in wanted)
    done = resume(RESULTS, runs, lambda run: measure(run, options.data), "{cohesive:.4g} of {random:.4g}")
    write_table("cohesive.md", "cohesive", table(list(done.values())))


if __name__ == "__main__":
    main()
