"""Graphs with types and edge attributes: accuracy over seeds and workers.

    python bench/typed.py [--data DIR] [--graphs rdf_aifb,…] [--seeds 5] [--workers 1,2,4] [--try]
    python bench/typed.py --render              # only write the table anew

The 90 runs take from seconds to eight minutes each, some hours in all. Every run is a JSON line in results/typed.jsonl; what is
there already is not run again, so the script may be stopped at any time. The table goes into docs/heterogeneous.md. `--try` trains
with validation nodes and prints validation alone: this is how settings were chosen. The table's runs of graphs without validation
nodes of their own train on all training nodes for a fixed number of epochs, as their papers do.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("STARLING_THREADS", "1")

import torch

import starling
from doc_tables import write_between
from kept_lines import resume
from settings import Tables, digest, merge
from typed_graphs import prepare

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "typed.jsonl"
MARKS = ("<!-- table: python bench/typed.py --render -->", "<!-- end of table -->")


AIFB: Tables = {
    "model": {"name": "rgcn", "hidden": 32, "dropout": 0.5},
    "optimizer": {"lr": 0.01},
    "embedding": {"dim": 32},
    "run": {"epochs": 50, "evaluate_every": 10},
}
MUTAG: Tables = {
    "model": {"name": "rgcn", "hidden": 16, "dropout": 0.5},
    "data": {"normalize": "standard"},
    "optimizer": {"lr": 0.01, "weight_decay": 5e-3},
    "run": {"epochs": 80, "evaluate_every": 10},
}
HGB: Tables = {
    "model": {"name": "rgcn", "hidden": 64, "dropout": 0.5},
    "optimizer": {"lr": 0.005, "weight_decay": 5e-4},
    "run": {"epochs": 60, "evaluate_every": 10},
}
BITCOIN: Tables = {
    "model": {"hidden": 32, "heads": 4, "dropout": 0.2},
    "optimizer": {"lr": 0.01, "weight_decay": 5e-4},
    "data": {"normalize": "standard"},
    "run": {"epochs": 150, "evaluate_every": 10},
}


@dataclass(frozen=True)
class Row:
    """A line of the table: a graph, a model with its settings, what it is to reach."""

    name: str
    graph: str
    metric: str
    target: str
    tables: Tables = field(hash=False)


ROWS = (
    Row("RGCN", "rdf_aifb", "accuracy", "≥ 94 %", AIFB),
    Row("RGCN", "rdf_mutag", "accuracy", "≥ 72 %", MUTAG),
    Row("RGCN", "hgb_acm", "micro-f1", "≥ 0.90", HGB),
    Row("RGCN", "hgb_dblp", "micro-f1", "≥ 0.90", HGB),
    Row("GAT", "bitcoin_otc", "auc", "", merge({"model": {"name": "gat"}}, BITCOIN)),
    Row("GAT-E", "bitcoin_otc", "auc", "above GAT", merge({"model": {"name": "gate"}}, BITCOIN)),
)


@dataclass(frozen=True)
class Run:
    """One training run."""

    row: Row
    seed: int
    workers: int
    validate: bool

    @property
    def key(self) -> str:
        """Names the run with all its settings: a line with another key is another run's."""
        nodes = "validate" if self.validate else "all"
        return f"{self.row.graph}/{self.row.name}/{self.seed}/{self.workers}/{nodes}/{digest(self.row.tables)}"


def runs(seeds: int, workers: list[int], *, validate: bool) -> Iterator[Run]:
    """Seed by seed, so that the table is whole early."""
    for seed in range(seeds):
        for count in workers:
            for row in ROWS:
                yield Run(row, seed, count, validate)


def train(run: Run, data: Path, scratch: Path) -> dict[str, Any]:
    """Do one run; a JSON line."""
    directory, graph = scratch / "run", scratch / run.row.graph
    shutil.rmtree(directory, ignore_errors=True)
    if not graph.is_dir():
        prepare(run.row.graph, data, graph, validate=run.validate)
    own: dict[str, dict[str, Any]] = {"data": {"path": str(graph)}, "run": {"seed": run.seed}, "team": {"workers": run.workers}}
    result = starling.Trainer(merge(run.row.tables, own, {"task": {"metric": run.row.metric}}), run=directory).fit()
    found = {"val": result.scores.val, "test": result.scores.test, "best_epoch": result.best_epoch, "loss": result.final_loss}
    known = {"key": run.key, "graph": run.row.graph, "model": run.row.name, "seed": run.seed, "workers": run.workers}
    return known | found | {"seconds": result.seconds, "settings": run.row.tables}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data", help="directory of .npz files")
    parser.add_argument("--graphs", default=",".join(dict.fromkeys(row.graph for row in ROWS)))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--render", action="store_true", help="only write the table anew")
    parser.add_argument("--try", dest="trial", action="store_true", help="validate, print, and keep nothing")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    graphs, workers = asked.graphs.split(","), [int(count) for count in asked.workers.split(",")]
    planned = () if asked.render else runs(asked.seeds, workers, validate=asked.trial)
    wanted = (run for run in planned if run.row.graph in graphs)
    with tempfile.TemporaryDirectory(prefix="starling-typed-") as folder:
        scratch = Path(folder)
        if asked.trial:
            for run in wanted:
                line = train(run, asked.data, scratch)
                print(f"{run.key}  val {line['val']}  best epoch {line['best_epoch']}  {line['seconds']} s", flush=True)
            return
        done = resume(RESULTS, wanted, lambda run: train(run, asked.data, scratch), "test {test:.4f}  {seconds} s")
    write_between("heterogeneous.md", *MARKS, table(done, asked.seeds))


def table(done: Mapping[str, Mapping[str, Any]], seeds: int) -> str:
    rows = ["| graph | model | metric | target | one process | 2 workers | 4 workers |"]
    rows.append("|---|---|---|---|---:|---:|---:|")
    for row in ROWS:
        cells = " | ".join(cell(values(done, row, count, seeds)) for count in (1, 2, 4))
        rows.append(f"| {row.graph} | {row.name} | {row.metric} | {row.target} | {cells} |")
    return "\n".join(rows)


def values(done: Mapping[str, Mapping[str, Any]], row: Row, workers: int, seeds: int) -> list[float]:
    """Test scores of a line's runs."""
    keys = [Run(row, seed, workers, validate=False).key for seed in range(seeds)]
    return [done[key]["test"] for key in keys if key in done]


def cell(found: list[float]) -> str:
    """Mean ± deviation in per cent, and of how many seeds."""
    if not found:
        return "–"
    spread = f" ± {100 * statistics.pstdev(found):.1f}" if len(found) > 1 else ""
    return f"{100 * statistics.mean(found):.1f}{spread} ({len(found)})"


if __name__ == "__main__":
    main()
