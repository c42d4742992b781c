"""Link prediction on real graphs: means over seeds, by one process and by 2 and 4 workers.

    python bench/link_prediction.py [--data DIR] [--only cora,wn18rr] [--workers 1,2,4] [--seeds 5]
    python bench/link_prediction.py --average [--data DIR] [--seeds 3]    # models averaged over 4 parts, the second table
    python bench/link_prediction.py --render    # only write docs/link-prediction.md anew

The 75 runs take a minute or two each. Every run is a JSON line in results/link_prediction.jsonl; what is there already is not run
again, so the script may be stopped at any time. Runs go seed by seed, so that the table, in docs/link-prediction.md, is whole
early. Test values are those of the epoch that was best on validation.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

os.environ.setdefault("STARLING_THREADS", "1")

import torch

import starling
from doc_tables import write_between, write_table
from kept_lines import resume
from settings import Tables, digest, merge
from starling.plan.partition_request import PartitionRequest
from starling.plan.partitioning import partition_graph
from starling.store.graph import create_graph, open_graph
from starling.stream.ingest import ImportOptions
from starling.stream.readers.open import open_inputs

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "link_prediction.jsonl"
MARKS = ("<!-- tables: python bench/link_prediction.py --render -->", "<!-- end of tables -->")

SAGE: Tables = {
    "task": {"name": "link", "metric": "auc"},
    "link": {"split_edges": "90/5/5", "negatives": "pairs"},
    "model": {"name": "sage", "hidden": 64},
    "run": {"epochs": 10, "evaluate_every": 2},
}
DISTMULT: Tables = {
    "task": {"name": "link", "metric": "mrr"},
    "link": {"decoder": "distmult", "loss": "softmax", "negatives": "shared", "count": 1024, "width": 128},
    "model": {"name": "rgcn", "layers": 1, "bases": 2, "input_dropout": 0.3},
    "strategy": {"name": "mini", "batch_size": 1024},
    "embedding": {"dim": 128},
    "optimizer": {"lr": 0.01},
    "schedule": {"name": "cosine"},
    "run": {"epochs": 30, "evaluate_every": 10},
}
DENSE: Tables = {  # 37 edges a node and 474 relations: samples of neighbours, fewer and larger steps
    "link": {"count": 512},
    "model": {"input_dropout": 0.2},
    "strategy": {"batch_size": 4096, "fanouts": [15]},
    "run": {"epochs": 12, "evaluate_every": 6},
}
SMALL: Tables = {
    "data": {"normalize": "rows"},
    "strategy": {"name": "mini", "batch_size": 2000},
    "optimizer": {"lr": 0.005},
    "run": {"epochs": 30},
}
SAMPLED: Tables = {"strategy": {"name": "mini", "batch_size": 16384, "fanouts": [10, 5]}, "optimizer": {"lr": 0.01}}


@dataclass(frozen=True)
class LinkGraph:
    """A graph of the tables: how it is imported, how it is trained, and what others report (the metric's name says which)."""

    name: str
    settings: tuple[Tables, ...]
    undirected: bool = False
    inverse: bool = False
    published: str = ""


GRAPHS = {
    graph.name: graph
    for graph in (
        LinkGraph("cora", (SAGE, SMALL)),
        LinkGraph("ca_astroph", (SAGE, SAMPLED), undirected=True),
        LinkGraph("email_enron", (SAGE, SAMPLED), undirected=True),
        LinkGraph("wn18rr", (DISTMULT,), inverse=True, published="DistMult 0.43 (Dettmers et al. 2018)"),
        LinkGraph(
            "fb15k237",
            (DISTMULT, DENSE),
            inverse=True,
            published="DistMult 0.241 (Dettmers et al. 2018), R-GCN 0.248 (Schlichtkrull et al. 2018)",
        ),
    )
}


PARTS = 4
AVERAGED: dict[str, Tables] = {
    "cora": merge(SAGE, SMALL),
    "citeseer": merge(SAGE, SMALL),
    "pubmed": merge(SAGE, SMALL, {"strategy": {"batch_size": 8192, "fanouts": [10, 5]}, "run": {"epochs": 20}}),
    **{name: merge(*GRAPHS[name].settings) for name in ("ca_astroph", "email_enron")},
}
"""Graphs for models that are averaged: three with features, two that learn embeddings."""


@dataclass(frozen=True)
class Way:
    """A column of the second table: on which parts, with which negatives, by one process or averaged."""

    name: str
    negatives: str
    method: str = "flock"
    average: bool = False

    def settings(self, graph: Tables) -> Tables:
        """Those of a graph, as docs/model-averaging.md advises for parts: a share of the batch, √parts of the rate, 3 rounds."""
        chosen: Tables = merge(graph, {"link": {"negatives": self.negatives}})
        if not self.average:
            return chosen
        share = {"strategy": {"batch_size": graph["strategy"]["batch_size"] // PARTS}}
        rate = {"optimizer": {"lr": graph["optimizer"]["lr"] * PARTS**0.5}}
        return merge(chosen, share, rate, {"team": {"parallel": "data"}, "sync": {"name": "average", "rounds": 3}})


WAYS = {
    way.name: way
    for way in (
        Way("one process, uniform", "uniform"),
        Way("one process, local", "local"),
        Way("average, local", "local", average=True),
        Way("one process, local, random parts", "local", method="random"),
        Way("average, local, random parts", "local", method="random", average=True),
    )
}


@dataclass(frozen=True)
class Run:
    """One training run."""

    graph: str
    workers: int
    seed: int
    settings: Tables

    @property
    def key(self) -> str:
        """Names the run with all its settings: a line with another key is another run's."""
        return f"{self.graph}/{self.workers}/{self.seed}/{digest(self.settings)}"


def all_runs(seeds: int) -> Iterator[Run]:
    """Seed by seed; of each seed one process first."""
    for seed in range(seeds):
        for workers in (1, 2, 4):
            for graph in GRAPHS.values():
                yield Run(graph.name, workers, seed, merge(*graph.settings))


@dataclass(frozen=True)
class AveragedRun:
    """One training run of the second table."""

    graph: str
    way: str
    seed: int

    @property
    def settings(self) -> Tables:
        return WAYS[self.way].settings(AVERAGED[self.graph])

    @property
    def key(self) -> str:
        """Names the run with all its settings."""
        return f"{self.graph}/{self.way}/{self.seed}/{digest(self.settings)}"


def averaged_runs(seeds: int) -> Iterator[AveragedRun]:
    """Seed by seed."""
    for seed in range(seeds):
        for graph in AVERAGED:
            for way in WAYS:
                yield AveragedRun(graph, way, seed)


def prepare_parts(graph: LinkGraph, method: str, data: Path, scratch: Path) -> Path:
    """The graph in parts with a hop of halo more than there are layers, so that ends in the halo have whole neighbourhoods."""
    place = scratch / f"{graph.name}-{method}"
    if not place.is_dir():
        request = PartitionRequest(method=method, parts=PARTS, halo_hops=3)
        partition_graph(open_graph(prepare(graph, data, scratch)), place, request)
    return place


def prepare(graph: LinkGraph, data: Path, scratch: Path) -> Path:
    """The graph directory, made when it is first asked for."""
    place = scratch / graph.name
    if not place.is_dir():
        options = ImportOptions(direction="undirected" if graph.undirected else "as-is", inverse=graph.inverse)
        create_graph(open_inputs([str(data / f"{graph.name}.npz")], memory=1 << 30), place, options)
    return place


def train(run: Run | AveragedRun, data: Path, scratch: Path) -> dict[str, Any]:
    """Do one run; a JSON line."""
    if isinstance(run, Run):
        place, how = prepare(GRAPHS[run.graph], data, scratch), {"workers": run.workers}
        team: Tables = {"team": {"workers": run.workers}}
    else:
        graph = GRAPHS.get(run.graph, LinkGraph(run.graph, ()))
        place, how = prepare_parts(graph, WAYS[run.way].method, data, scratch), {"way": run.way}
        team = {}
    directory = scratch / "run"
    shutil.rmtree(directory, ignore_errors=True)
    began = time.monotonic()
    tables = merge(run.settings, team, {"data": {"path": str(place)}, "run": {"seed": run.seed}})
    result = starling.Trainer(tables, run=directory).fit()
    line = {"key": run.key, "graph": run.graph, **how, "seed": run.seed, "metric": result.metric}
    line |= {"val": result.scores.val, "test": result.scores.test, "best_epoch": result.best_epoch}
    return line | {"seconds": round(time.monotonic() - began, 1), "settings": run.settings}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data", help="directory of .npz files")
    parser.add_argument("--only", default=",".join(GRAPHS))
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--seeds", type=int, default=5, help="at most so many")
    parser.add_argument("--average", action="store_true", help="the runs of the second table")
    parser.add_argument("--render", action="store_true", help="only write the tables anew")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    graphs, workers = asked.only.split(","), {int(number) for number in asked.workers.split(",")}
    planned = () if asked.render or asked.average else all_runs(asked.seeds)
    averaged = averaged_runs(asked.seeds) if asked.average and not asked.render else ()
    wanted: Iterator[Run | AveragedRun] = chain(
        (run for run in planned if run.graph in graphs and run.workers in workers), averaged
    )
    show = "val {val:.4f}  test {test:.4f}  {seconds:.0f} s"
    with tempfile.TemporaryDirectory(prefix="starling-links-") as scratch:
        done = resume(RESULTS, wanted, lambda run: train(run, asked.data, Path(scratch)), show)
    write_between("link-prediction.md", *MARKS, table(done, asked.seeds))
    write_table("link-prediction.md", "averaged_links", averaged_table(done, asked.seeds))


def table(done: Mapping[str, Mapping[str, Any]], seeds: int) -> str:
    found: dict[tuple[str, int], list[float]] = {}
    for run in all_runs(seeds):
        if run.key in done:
            found.setdefault((run.graph, run.workers), []).append(done[run.key]["test"])
    rows = [
        "| graph | model, decoder | metric | 1 process | 2 workers | 4 workers | published |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, graph in GRAPHS.items():
        tables = merge(*graph.settings)
        decoder, metric = tables["link"].get("decoder", "dot"), tables["task"]["metric"]
        metric = f"filtered {metric}" if metric == "mrr" else metric
        cells = [cell(found.get((name, workers))) for workers in (1, 2, 4)]
        rows.append(f"| {name} | {tables['model']['name']}, {decoder} | {metric} | {' | '.join(cells)} | {graph.published} |")
    return "\n".join(rows)


def averaged_table(done: Mapping[str, Mapping[str, Any]], seeds: int) -> str:
    rows = [f"| graph | {' | '.join(WAYS)} |", "|---|" + "---:|" * len(WAYS)]
    for graph in AVERAGED:
        lines = {way: [run.key for run in averaged_runs(seeds) if (run.graph, run.way) == (graph, way)] for way in WAYS}
        cells = [cell([done[key]["test"] for key in keys if key in done]) for keys in lines.values()]
        rows.append(f"| {graph} | {' | '.join(cells)} |")
    return "\n".join(rows)


def cell(values: list[float] | None) -> str:
    """Mean ± deviation and how many seeds."""
    if not values:
        return "–"
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{spread} ({len(values)})"


if __name__ == "__main__":
    main()
