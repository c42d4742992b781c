"""Sampled training at 4, 8 and 16 parts beside one process, by both syncs (CATGNN's Figure 7): test accuracy.

    python bench/data_accuracy.py [--data DIR] [--graphs cora,…] [--models gcn,gat,sage] [--syncs gradient,average] [--seeds 3]
    python bench/data_accuracy.py --render      # only write the table anew

There are 1,008 runs, so choose. Every run is a line of results/data_accuracy.jsonl; what is there already is not run again, so the
script may be stopped at any time. The table goes to docs/model-averaging.md.

As in the paper GCN and GAT take all neighbours, GraphSAGE samples 25 and 10, two layers, Adam at 0.01, test accuracy at the best
validation, at most 60 epochs, 15 without a better one. A step has a tenth of the training nodes, and at least 128, of all workers
together; with `average` each part has its share of these. With `gradient` two workers share the parts, as threads of one process,
whose losses have the bits of processes; with `average` one worker takes all parts in turn, which has the bits of any number.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("STARLING_THREADS", "1")

import torch

from accuracy_graphs import GRAPHS, LabelledGraph, prepare_parts
from doc_tables import write_table
from kept_lines import resume
from settings import Tables, merge
from starling.comm.in_process import run_threads
from starling.core.manifest import GraphManifest
from starling.store.parts_manifest import PartsManifest
from starling.train.config import RunConfig
from starling.train.trainer import fit

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "data_accuracy.jsonl"
MODELS, PARTS, SYNCS = ("gcn", "sage", "gat"), (4, 8, 16), ("gradient", "average")
SMALLEST_BATCH, STEPS = 128, 10
OTHERS = (
    *("chameleon", "actor", "amazon_photo", "coauthor_cs", "blogcatalog_attr", "flickr_small", "musae_github"),
    *("ppi", "tolokers", "hgb_acm", "hgb_dblp", "nell", "bitcoin_otc"),
)
CASES: dict[str, LabelledGraph] = {
    # the paper trains on half of the citation graphs' nodes or more, so these are split anew
    **{name: replace(GRAPHS[name], split="random") for name in ("cora", "citeseer", "pubmed")},
    **{name: GRAPHS[name] for name in OTHERS},
}
OWN: dict[str, Tables] = {
    "gcn": {"model": {"name": "gcn"}},
    "gat": {"model": {"name": "gat", "heads": 4}},
    "sage": {"model": {"name": "sage"}, "strategy": {"fanouts": "25,10"}},
}


@dataclass(frozen=True)
class Run:
    """One training; `parts` 0 is one process on the whole graph."""

    graph: str
    model: str
    seed: int
    parts: int = 0
    sync: str = "gradient"

    @property
    def key(self) -> str:
        return f"{self.graph}/{self.model}/{self.seed}/{self.parts}/{self.sync}"


def all_runs(seeds: int, models: tuple[str, ...]) -> Iterator[Run]:
    for seed in range(seeds):
        for graph in CASES:
            for model in models:
                yield Run(graph, model, seed)
                yield from (Run(graph, model, seed, parts, sync) for parts in PARTS for sync in SYNCS)


def settings_of(run: Run, path: Path) -> Tables:
    graph = CASES[run.graph]
    workers = 2 if run.parts and run.sync == "gradient" else 1
    train_nodes = (PartsManifest if run.parts else GraphManifest).read(path).splits["train"]
    batch = min(train_nodes, max(SMALLEST_BATCH, train_nodes // STEPS))
    if run.parts and run.sync == "average":
        batch = max(8, batch // run.parts)  # as many steps an epoch as one process
    data: Tables = {"team": {"parallel": "data", "workers": workers}, "sync": {"name": run.sync}} if run.parts else {}
    return merge(
        {
            "data": {"path": str(path), "normalize": graph.normalize},
            "model": {"layers": 2, "hidden": 64, "dropout": 0.5},
            "strategy": {"name": "mini", "batch_size": batch},
            "optimizer": {"lr": 0.01},
            "run": {"epochs": 60, "evaluate_every": 2, "patience": 15, "seed": run.seed},
        },
        {"task": {"metric": graph.metric}} if graph.metric else {},
        OWN[run.model],
        data,
    )


def train(run: Run, data: Path, scratch: Path) -> dict[str, Any]:
    """Do one run; a JSON line."""
    began = time.process_time()
    path = prepare_parts(CASES[run.graph], data, scratch, run.seed, run.parts)
    config = RunConfig.from_tables(settings_of(run, path))
    shutil.rmtree(scratch / "run", ignore_errors=True)
    workers = config.team.workers
    result = run_threads(workers, lambda member: fit(config, scratch / "run", team=member))[0]
    found = {"val": result.scores.val, "test": result.scores.test, "best_epoch": result.best_epoch}
    return {"key": run.key, **vars(run)} | found | {"cpu_seconds": round(time.process_time() - began, 1)}


def render(done: dict[str, dict[str, Any]], seeds: int) -> str:
    """Mean test scores, and the difference to one process on the same seeds in points."""
    heads = [(sync, parts) for sync in SYNCS for parts in PARTS]
    names = " | ".join(f"{sync}, {parts}" for sync, parts in heads)
    out = [f"| graph | model | one process | {names} | seeds |", "|---|---|" + "---:|" * (len(heads) + 2)]
    within, beyond = 0, list[str]()
    for graph, model in ((graph, model) for graph in CASES for model in MODELS):
        whole = [seed for seed in range(seeds) if Run(graph, model, seed).key in done]
        if not whole:
            continue
        cells = []
        for sync, parts in heads:
            both = [seed for seed in whole if Run(graph, model, seed, parts, sync).key in done]
            if not both:
                cells.append("–")
                continue
            base = statistics.mean(100 * done[Run(graph, model, seed).key]["test"] for seed in both)
            mean = statistics.mean(100 * done[Run(graph, model, seed, parts, sync).key]["test"] for seed in both)
            cells.append(f"{mean:.2f} ({mean - base:+.2f})")
            within += mean >= base - 0.5
            if mean < base - 0.5:
                beyond.append(f"{graph} {model} {sync} {parts} ({mean - base:+.2f})")
        alone = statistics.mean(100 * done[Run(graph, model, seed).key]["test"] for seed in whole)
        out.append(f"| {graph} | {model} | {alone:.2f} | {' | '.join(cells)} | {len(whole)} |")
    said = f"{within} of {within + len(beyond)} means are at most 0.5 points below one process"
    return "\n".join([*out, "", said + (f"; beyond: {'; '.join(beyond)}." if beyond else ".")])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data", help="directory of .npz files")
    parser.add_argument("--graphs", default=",".join(CASES))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--syncs", default=",".join(SYNCS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--render", action="store_true", help="only write the table anew")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    graphs, models, syncs = asked.graphs.split(","), tuple(asked.models.split(",")), asked.syncs.split(",")
    planned = () if asked.render else all_runs(asked.seeds, models)
    wanted = (run for run in planned if run.graph in graphs and (not run.parts or run.sync in syncs))
    with tempfile.TemporaryDirectory(prefix="starling-data-accuracy-") as scratch:
        done = resume(RESULTS, wanted, lambda run: train(run, asked.data, Path(scratch)), "test {test:.4f}  {cpu_seconds} s")
    write_table("model-averaging.md", "data_accuracy", render(done, asked.seeds))


if __name__ == "__main__":
    main()
