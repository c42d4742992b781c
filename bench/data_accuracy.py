"""Sampled training at 4, 8 and 16 parts beside one process, by both syncs (CATGNN's Figure 7): test accuracy.

    python bench/data_accuracy.py [--data DIR] [--graphs cora,…] [--models gcn,gat,sage] [--syncs gradient,average] [--seeds 3]
    python bench/data_accuracy.py --variants    # other ways to average, at 16 parts, beside the one of the table
    python bench/data_accuracy.py --render      # only write the tables anew

There are 1,008 runs, so choose. Every run is a line of results/data_accuracy.jsonl; what is there already is not run again, so the
script may be stopped at any time. The tables go to docs/model-averaging.md.

As in the paper GCN and GAT take all neighbours, GraphSAGE samples 25 and 10, two layers, Adam at 0.01, at most 100 epochs, test
accuracy at the best validation; unlike it 64 hidden units instead of 256, and a run ends after 30 epochs without a better one. A
step has a tenth of the training nodes, and at least 128, of all workers together; with `average` each part has its share of these,
two hops of halo, three averagings an epoch and the rate times the root of parts (the paper: 512 each, one hop, one averaging).
With `gradient` two workers share the parts, as threads of one process, whose losses have the bits of processes; with `average` one
worker takes all parts in turn, which has the bits of any number.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

os.environ.setdefault("STARLING_THREADS", "1")

import torch

from accuracy_graphs import GRAPHS, LabelledGraph, prepare_parts
from doc_tables import write_table
from kept_lines import Line, resume
from settings import Tables, digest, merge
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
COMMON: Tables = {
    "model": {"layers": 2, "hidden": 64, "dropout": 0.5},
    "strategy": {"name": "mini"},
    "optimizer": {"lr": 0.01},
    "run": {"epochs": 100, "evaluate_every": 2, "patience": 30},
}
OWN: dict[str, Tables] = {
    "gcn": {"model": {"name": "gcn"}},
    "gat": {"model": {"name": "gat", "heads": 4}},
    "sage": {"model": {"name": "sage"}, "strategy": {"fanouts": "25,10"}},
}


@dataclass(frozen=True)
class Way:
    """A way to average: settings of the run that averages, and of all runs that it is compared with, one process included."""

    own: Tables
    hops: int = 1
    """Of halo."""
    batches: int = 1
    """A part's batches in shares of one process's."""
    rate: Callable[[int], float] = lambda parts: 1.0
    """A part's learning rate beside one process's."""
    shared: Tables = field(default_factory=dict)


AVERAGED: Tables = {"sync": {"moments": "average"}}
ROOT, TWO_HOPS_ROOT = "one hop, rate times √parts", "two hops, rate times √parts"
PLAIN, ONE_HOP, TWO_HOPS = "as in the table", "`--halo-hops 1`", "`--halo-hops 2`"
IN_TABLE = "two hops, rate times √parts, 3 rounds an epoch"
OFTEN: Tables = {"sync": {"moments": "average", "rounds": 3}}
LONG: Tables = {"run": {"epochs": 300, "patience": 100}}
WAYS: dict[str, Way] = {
    ONE_HOP: Way(AVERAGED),
    TWO_HOPS: Way(AVERAGED, hops=2),
    "`--correct`": Way({"sync": {"moments": "average", "correct": True}}),
    '`moments = "local"`': Way({"sync": {"moments": "local"}}),
    '`moments = "reset"`': Way({"sync": {"moments": "reset"}}),
    ROOT: Way(AVERAGED, rate=math.sqrt),
    "two hops, twice the rate": Way(AVERAGED, hops=2, rate=lambda parts: 2.0),
    TWO_HOPS_ROOT: Way(AVERAGED, hops=2, rate=math.sqrt),
    IN_TABLE: Way(OFTEN, hops=2, rate=math.sqrt),
    "two hops, 3 rounds an epoch": Way(OFTEN, hops=2),
    "one hop, rate times √parts, 3 rounds an epoch": Way(OFTEN, rate=math.sqrt),
    "two hops, batches times 4": Way(AVERAGED, hops=2, batches=4),
    "two hops, batches times 4, twice the rate": Way(AVERAGED, hops=2, batches=4, rate=lambda parts: 2.0),
    "two hops, all sides 300 epochs": Way(AVERAGED, hops=2, shared=LONG),
    "two hops, all sides cosine": Way(AVERAGED, hops=2, shared={"schedule": {"name": "cosine"}, "run": {"patience": 0}}),
    "two hops, `--correct`": Way({"sync": {"moments": "average", "correct": True}}, hops=2),
}


@dataclass(frozen=True)
class Run:
    """One training; `parts` 0 is one process on the whole graph."""

    graph: str
    model: str
    seed: int
    parts: int = 0
    sync: str = "gradient"
    variant: str = PLAIN

    @property
    def key(self) -> str:
        """All that tells this run from others, the settings it shares with many as a digest."""
        settings = digest(merge(COMMON, OWN[self.model], self.how))
        return f"{self.graph}/{self.model}/{self.seed}/{self.parts}/{self.sync}/{self.variant}/{settings}"

    @property
    def how(self) -> Tables:
        """How models are averaged, if they are, and what all runs of a way share."""
        way = WAYS.get(self.variant)
        if way is None:
            return {}
        rate = round(COMMON["optimizer"]["lr"] * way.rate(self.parts), 5)
        faster = {} if way.rate(self.parts) == 1 else {"optimizer": {"lr": rate}}
        return merge(way.shared, way.own, faster) if self.sync == "average" else way.shared

    @property
    def alone(self) -> Run:
        """One process that this is compared with."""
        shared = self.variant in WAYS and WAYS[self.variant].shared
        return replace(self, parts=0, sync="gradient", variant=self.variant if shared else PLAIN)


def all_runs(seeds: int, graphs: list[str], models: tuple[str, ...], syncs: list[str], ways: list[str]) -> Iterator[Run]:
    """Seed by seed, so that a script that is stopped has whole rows of few seeds; `ways` to average instead of the table."""
    for graph in (graph for graph in CASES if graph in graphs):
        for seed, model in itertools.product(range(seeds), models):
            if ways:
                runs = [Run(graph, model, seed, PARTS[-1], "average", way) for way in ways]
            else:
                runs = [_in_parts(graph, model, seed, parts, sync) for parts in PARTS for sync in syncs]
            yield from dict.fromkeys(some for run in runs for some in (run.alone, run))


def _in_parts(graph: str, model: str, seed: int, parts: int, sync: str) -> Run:
    """A run of the table."""
    return Run(graph, model, seed, parts, sync, IN_TABLE if sync == "average" else PLAIN)


def settings_of(run: Run, path: Path) -> Tables:
    graph = CASES[run.graph]
    workers = 2 if run.parts and run.sync == "gradient" else 1
    train_nodes = (PartsManifest if run.parts else GraphManifest).read(path).splits["train"]
    batch = min(train_nodes, max(SMALLEST_BATCH, train_nodes // STEPS))
    if run.parts and run.sync == "average":
        share = max(8, batch // run.parts)  # as many steps an epoch as one process
        batch = share * (WAYS[run.variant].batches if run.variant in WAYS else 1)
    data: Tables = {"team": {"parallel": "data", "workers": workers}, "sync": {"name": run.sync}} if run.parts else {}
    return merge(
        COMMON,
        {
            "data": {"path": str(path), "normalize": graph.normalize},
            "strategy": {"batch_size": batch},
            "run": {"seed": run.seed},
        },
        {"task": {"metric": graph.metric}} if graph.metric else {},
        OWN[run.model],
        data,
        run.how,
    )


def train(run: Run, data: Path, scratch: Path) -> Line:
    """Do one run; a JSON line."""
    began = time.process_time()
    hops = WAYS[run.variant].hops if run.variant in WAYS else 1
    path = prepare_parts(CASES[run.graph], data, scratch, run.seed, run.parts, halo_hops=hops)
    config = RunConfig.from_tables(settings_of(run, path))
    shutil.rmtree(scratch / "run", ignore_errors=True)
    workers = config.team.workers
    result = run_threads(workers, lambda member: fit(config, scratch / "run", team=member))[0]
    found = {"val": result.scores.val, "test": result.scores.test, "best_epoch": result.best_epoch}
    return {"key": run.key, **vars(run)} | found | {"cpu_seconds": round(time.process_time() - began, 1)}


def points(done: dict[str, Line], runs: Iterable[Run], name: str = "test") -> float:
    """The mean of a score over runs, in points."""
    return statistics.mean(100 * done[run.key][name] for run in runs)


def standard_error(values: Sequence[float]) -> float | None:
    """Of the mean of some values, where there are two or more."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None


def render(done: dict[str, Line], seeds: int) -> str:
    """Mean test scores, and the difference to one process on the same seeds in points."""
    heads = [(sync, parts) for sync in SYNCS for parts in PARTS]
    names = " | ".join(f"{sync}, {parts}" for sync, parts in heads)
    out = [f"| graph | model | one process | {names} | seeds |", "|---|---|" + "---:|" * (len(heads) + 2)]
    within, beyond = 0, list[str]()
    for graph, model in ((graph, model) for graph in CASES for model in MODELS):
        alone = [run for seed in range(seeds) if (run := Run(graph, model, seed)).key in done]
        if not alone:
            continue
        cells = []
        for sync, parts in heads:
            pairs = [(run, cut) for run in alone if (cut := _in_parts(graph, model, run.seed, parts, sync)).key in done]
            if not pairs:
                cells.append("–")
                continue
            mean = points(done, (cut for _, cut in pairs))
            less = mean - points(done, (run for run, _ in pairs))
            error = standard_error([points(done, [cut]) - points(done, [run]) for run, cut in pairs])
            few = f", {len(pairs)} seed{'s' if len(pairs) > 1 else ''}" if len(pairs) < len(alone) else ""
            cells.append(f"{mean:.2f} ({less:+.2f}{'' if error is None else f' ± {error:.2f}'}{few})")
            within += less >= -0.5
            if less < -0.5:
                told = "one seed" if error is None else f"{len(pairs)} seeds, {-less / max(error, 0.005):.1f} standard errors"
                beyond.append(f"{graph} {model} {sync} {parts} ({less:+.2f}, {told})")
        out.append(f"| {graph} | {model} | {points(done, alone):.2f} | {' | '.join(cells)} | {len(alone)} |")
    said = f"{within} of {within + len(beyond)} means are at most 0.5 points below one process"
    return "\n".join([*out, "", said + (f"; beyond: {'; '.join(beyond)}." if beyond else ".")])


def render_graphs(done: dict[str, Line], seeds: int) -> str:
    """Differences to one process by graph and sync, over all models, parts and seeds: those of a seed share their one process."""
    out = ["| graph | sync | validation | test | best epoch, of one process | runs |", "|---|---|---:|---:|---:|---:|"]
    for graph, sync in itertools.product(CASES, SYNCS):
        groups = [
            [run for parts in PARTS if (run := _in_parts(graph, model, seed, parts, sync)).key in done]
            for model, seed in itertools.product(MODELS, range(seeds))
            if Run(graph, model, seed).key in done
        ]
        groups = [group for group in groups if group]
        if not groups:
            continue
        cells = []
        for score in ("val", "test"):
            means = [points(done, group, score) - points(done, [group[0].alone], score) for group in groups]
            error = standard_error(means)
            cells.append(f"{statistics.mean(means):+.2f}" + ("" if error is None else f" ± {error:.2f}"))
        epochs = [statistics.mean(done[run.key]["best_epoch"] for run in group) for group in groups]
        alone = statistics.mean(done[group[0].alone.key]["best_epoch"] for group in groups)
        cells.append(f"{statistics.mean(epochs):.0f}, {alone:.0f}")
        out.append(f"| {graph} | {sync} | {' | '.join(cells)} | {sum(map(len, groups))} |")
    return "\n".join(out)


def render_variants(done: dict[str, Line], seeds: int) -> str:
    """Ways to average at the most parts: mean scores, the differences to one process on the same seeds, and the best epoch."""
    out = ["| graph | model | averaging | validation | test | best epoch | seeds |", "|---|---|---|---:|---:|---:|---:|"]
    for graph, model in ((graph, model) for graph in CASES for model in MODELS):
        rows = []
        for name in WAYS:
            cut = [run for seed in range(seeds) if (run := Run(graph, model, seed, PARTS[-1], "average", name)).key in done]
            cut = [run for run in cut if run.alone.key in done]
            if cut:
                alone = [run.alone for run in cut]
                scores = [points(done, cut, score) for score in ("val", "test")]
                less = [mean - points(done, alone, score) for mean, score in zip(scores, ("val", "test"), strict=True)]
                cells = " | ".join(f"{mean:.2f} ({off:+.2f})" for mean, off in zip(scores, less, strict=True))
                epoch = statistics.mean(done[run.key]["best_epoch"] for run in cut)
                rows.append(f"| {graph} | {model} | {name} | {cells} | {epoch:.0f} | {len(cut)} |")
        if len(rows) > 1:  # something to compare
            out += rows
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data", help="directory of .npz files")
    parser.add_argument("--graphs", default=",".join(CASES))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--syncs", default=",".join(SYNCS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--variants", nargs="?", const="; ".join(WAYS), default="", help="ways to average, at 16 parts: all, or A; B"
    )
    parser.add_argument("--render", action="store_true", help="only write the table anew")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    graphs, models, syncs = asked.graphs.split(","), tuple(asked.models.split(",")), asked.syncs.split(",")
    ways = [way for way in asked.variants.split("; ") if way]
    wanted = () if asked.render else all_runs(asked.seeds, graphs, models, syncs, ways)
    with tempfile.TemporaryDirectory(prefix="starling-data-accuracy-") as scratch:
        done = resume(RESULTS, wanted, lambda run: train(run, asked.data, Path(scratch)), "test {test:.4f}  {cpu_seconds} s")
    write_table("model-averaging.md", "data_accuracy", render(done, asked.seeds))
    write_table("model-averaging.md", "data_accuracy_graphs", render_graphs(done, asked.seeds))
    write_table("model-averaging.md", "averaging_variants", render_variants(done, asked.seeds))


if __name__ == "__main__":
    main()
