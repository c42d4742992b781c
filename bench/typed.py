"""Graphs with types and edge attributes: accuracy over seeds and workers, written into docs/heterogeneous.md.

    python bench/typed.py [--data DIR] [--graphs rdf_aifb,…] [--seeds 5] [--workers 1,2,4] [--render] [--try]

Every run is a JSON line in results/typed.jsonl; what is there already is not run again, so the script may be stopped at any time.
`--try` trains with validation nodes and prints validation alone: this is how settings were chosen. The table's runs of graphs
without validation nodes of their own train on all training nodes for a fixed number of epochs, as their papers do.
"""

from __future__ import annotations

import argparse
import hashlib
import json
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
from typed_graphs import prepare

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "typed.jsonl", HERE.parent / "docs" / "heterogeneous.md"
MARKS = ("<!-- table: python bench/typed.py --render -->", "<!-- end of table -->")

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """A line of the table: a graph, a model with its settings, what is to be reached."""

    name: str
    graph: str
    metric: str
    wanted: str
    tables: Tables = field(hash=False)


ROWS = (
    Row(
        "RGCN",
        "rdf_aifb",
        "accuracy",
        "≥ 94 %",
        {
            "model": {"name": "rgcn", "hidden": 32, "dropout": 0.5},
            "optimizer": {"lr": 0.01},
            "embedding": {"dim": 32},
            "run": {"epochs": 50, "evaluate_every": 10},
        },
    ),
    Row(
        "RGCN",
        "rdf_mutag",
        "accuracy",
        "≥ 72 %",
        {
            "model": {"name": "rgcn", "hidden": 16, "dropout": 0.5},
            "data": {"normalize": "standard"},
            "optimizer": {"lr": 0.01, "weight_decay": 5e-3},
            "run": {"epochs": 80, "evaluate_every": 10},
        },
    ),
    Row(
        "RGCN",
        "hgb_acm",
        "micro-f1",
        "≥ 0.90",
        {
            "model": {"name": "rgcn", "hidden": 64, "dropout": 0.5},
            "optimizer": {"lr": 0.005, "weight_decay": 5e-4},
            "run": {"epochs": 60, "evaluate_every": 10},
        },
    ),
    Row(
        "RGCN",
        "hgb_dblp",
        "micro-f1",
        "≥ 0.90",
        {
            "model": {"name": "rgcn", "hidden": 64, "dropout": 0.5},
            "optimizer": {"lr": 0.005, "weight_decay": 5e-4},
            "run": {"epochs": 60, "evaluate_every": 10},
        },
    ),
    Row(
        "GAT",
        "bitcoin_otc",
        "auc",
        "",
        {
            "model": {"name": "gat", "hidden": 32, "heads": 4, "dropout": 0.2},
            "optimizer": {"lr": 0.01, "weight_decay": 5e-4},
            "data": {"normalize": "standard"},
            "run": {"epochs": 150, "evaluate_every": 10},
        },
    ),
    Row(
        "GAT-E",
        "bitcoin_otc",
        "auc",
        "above GAT",
        {
            "model": {"name": "gate", "hidden": 32, "heads": 4, "dropout": 0.2},
            "optimizer": {"lr": 0.01, "weight_decay": 5e-4},
            "data": {"normalize": "standard"},
            "run": {"epochs": 150, "evaluate_every": 10},
        },
    ),
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
        digest = hashlib.sha256(json.dumps(self.row.tables, sort_keys=True).encode()).hexdigest()[:8]
        return f"{self.row.graph}/{self.row.name}/{self.seed}/{self.workers}/{'validate' if self.validate else 'all'}/{digest}"


def runs(seeds: int, workers: list[int], *, validate: bool) -> Iterator[Run]:
    """Seed by seed, so that the table is whole early."""
    for seed in range(seeds):
        for count in workers:
            for row in ROWS:
                yield Run(row, seed, count, validate)


def train(run: Run, graph: Path, scratch: Path) -> dict[str, Any]:
    """Do one run; a JSON line."""
    directory = scratch / "run"
    shutil.rmtree(directory, ignore_errors=True)
    tables: Tables = {name: dict(table) for name, table in run.row.tables.items()}
    for table, settings in (
        ("data", {"path": str(graph)}),
        ("run", {"seed": run.seed}),
        ("team", {"workers": run.workers}),
        ("task", {"metric": run.row.metric}),
    ):
        tables.setdefault(table, {}).update(settings)
    result = starling.Trainer(tables, run=directory).fit()
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
    done = lines()
    if not asked.render:
        graphs, workers = asked.graphs.split(","), [int(count) for count in asked.workers.split(",")]
        with tempfile.TemporaryDirectory(prefix="starling-typed-") as folder:
            scratch, places = Path(folder), dict[str, Path]()
            for run in runs(asked.seeds, workers, validate=asked.trial):
                name = run.row.graph
                if name not in graphs or (run.key in done and not asked.trial):
                    continue
                if name not in places:
                    places[name] = prepare(name, asked.data, scratch / name, validate=asked.trial)
                line = train(run, places[name], scratch)
                if asked.trial:
                    print(f"{run.key}  val {line['val']}  best epoch {line['best_epoch']}  {line['seconds']} s", flush=True)
                    continue
                done[run.key] = line
                with RESULTS.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(f"{run.key}  test {line['test']:.4f}  {line['seconds']} s", flush=True)
    if not asked.trial:
        render(done, asked.seeds)


def lines() -> dict[str, dict[str, Any]]:
    """The runs done so far, by key."""
    if not RESULTS.is_file():
        return {}
    return {line["key"]: line for line in map(json.loads, RESULTS.read_text().splitlines())}


def render(done: Mapping[str, Mapping[str, Any]], seeds: int) -> None:
    """Write the table between its marks in the page."""
    before, rest = PAGE.read_text().split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    rows = ["| graph | model | metric | wanted | one process | 2 workers | 4 workers |"]
    rows.append("|---|---|---|---|---:|---:|---:|")
    for row in ROWS:
        found = {count: values(done, row, count, seeds) for count in (1, 2, 4)}
        cells = " | ".join(cell(found[count]) for count in (1, 2, 4))
        rows.append(f"| {row.graph} | {row.name} | {row.metric} | {row.wanted} | {cells} |")
    PAGE.write_text(f"{before}{MARKS[0]}\n" + "\n".join(rows) + f"\n{MARKS[1]}{after}")


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
