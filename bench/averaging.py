"""How often to average: intervals of 1, 5, 10, 20 and 50 epochs, time and accuracy (CATGNN's Figure 11).

    python bench/averaging.py [--data DIR] [--graphs coauthor_cs,…] [--models gcn,gat,sage] [--moments average,local] [--seeds 3]
    python bench/averaging.py --untimed         # beside other programs: accuracies and bytes, no seconds
    python bench/averaging.py --render          # only write the table anew

Four parts by two workers that are processes, 100 epochs of mini-batches as in data_accuracy.py: 450 runs, for which plan hours;
run nothing else, or pass --untimed, with which workers are threads of this process. Every run is a line of results/averaging.jsonl;
what is there already is not run again, so the script may be stopped at any time. Synchronisation is what workers spent on sending,
receiving and adding models, without waiting for one another's training. The table goes to docs/model-averaging.md.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import starling
from accuracy_graphs import prepare_parts
from data_accuracy import CASES, MODELS, settings_of
from data_accuracy import Run as Settings
from doc_tables import write_table
from kept_lines import Line, read_lines, resume
from settings import merge
from starling.comm.in_process import run_threads
from starling.train.config import RunConfig
from starling.train.trainer import fit

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "averaging.jsonl"
GRAPHS, EVERY = ("cora", "citeseer", "pubmed", "coauthor_cs", "amazon_photo"), (1, 5, 10, 20, 50)
PARTS, WORKERS, EPOCHS = 4, 2, 100
MOMENTS = ("local", "average")


@dataclass(frozen=True)
class Run:
    """One training."""

    graph: str
    model: str
    seed: int
    every: int
    correct: bool = False
    moments: str = "average"

    @property
    def key(self) -> str:
        how = f"{self.moments} moments" + (", correct" if self.correct else "")
        return f"{self.graph}/{self.model}/{self.seed}/{self.every}/{how}"


def all_runs(seeds: int, moments: list[str]) -> Iterator[Run]:
    for graph in GRAPHS:
        for seed in range(seeds):
            for model in MODELS:
                for every, correct, kept in itertools.product(EVERY, (False, True), moments):
                    yield Run(graph, model, seed, every, correct, kept)


def train(run: Run, data: Path, scratch: Path, *, timed: bool) -> Line:
    """Do one run; a JSON line."""
    path = prepare_parts(CASES[run.graph], data, scratch, run.seed, PARTS)
    changes: dict[str, dict[str, Any]] = {
        "team": {"workers": WORKERS},
        "sync": {"every": run.every, "correct": run.correct, "moments": run.moments},
        "run": {"epochs": EPOCHS, "evaluate_every": 1, "patience": 0},
    }
    settings = merge(settings_of(Settings(run.graph, run.model, run.seed, PARTS, "average"), path), changes)
    shutil.rmtree(scratch / "run", ignore_errors=True)
    if timed:
        result = starling.Trainer(settings, run=scratch / "run").fit()
    else:
        config = RunConfig.from_tables(settings)
        result = run_threads(WORKERS, lambda member: fit(config, scratch / "run", team=member))[0]
    lines = read_lines(scratch / "run" / "metrics.jsonl")
    rounds = lines[run.every - 1 :: run.every]  # the epochs of a round share its account
    syncing = sum(max(worker["reducing"] + worker["communication"] for worker in line["workers"]) for line in rounds)
    found = {"val": result.scores.val, "test": result.scores.test, "best_epoch": result.best_epoch}
    training = sum(line["seconds"] for line in lines)
    times = {"train_seconds": round(training, 3) if timed else None, "sync_seconds": round(syncing, 4) if timed else None}
    sent = sum(sum(worker["bytes_to"]) for line in rounds for worker in line["workers"])
    return {"key": run.key, **vars(run)} | found | times | {"bytes_sent": sent}


def render(done: dict[str, Line], seeds: int) -> str:
    out = [
        f"{PARTS} parts, {WORKERS} workers, {EPOCHS} epochs; means over seeds, `--correct` behind the stroke.",
        "",
        "| graph | model | moments | every | test accuracy | training | synchronisation | sent | seeds |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for graph, model, moments, every in itertools.product(GRAPHS, MODELS, MOMENTS, EVERY):
        lines = [
            [done[run.key] for seed in range(seeds) if (run := Run(graph, model, seed, every, correct, moments)).key in done]
            for correct in (False, True)
        ]
        if lines[0]:
            columns = ("test", ".2f", 100, ""), ("train_seconds", ".1f", 1, " s"), ("sync_seconds", ".1f", 1000, " ms")
            cells = [_both(lines, *column) for column in (*columns, ("bytes_sent", ".1f", 2**-20, " MiB"))]
            out.append(f"| {graph} | {model} | {moments} | {every} | {' | '.join(cells)} | {len(lines[0])} |")
    return "\n".join(out)


def _both(lines: list[list[Line]], name: str, form: str, factor: float, unit: str) -> str:
    """The mean of one number without correction and with it; a dash where it was not measured."""
    if any(line[name] is None for some in lines for line in some):
        return "–"
    return " / ".join(format(statistics.mean(factor * line[name] for line in some), form) for some in lines if some) + unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data", help="directory of .npz files")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--moments", default="average", help="average, local or both")
    parser.add_argument("--untimed", action="store_true", help="leave seconds out: other programs run meanwhile")
    parser.add_argument("--render", action="store_true", help="only write the table anew")
    asked = parser.parse_args()
    graphs, models = asked.graphs.split(","), asked.models.split(",")
    planned = () if asked.render else all_runs(asked.seeds, asked.moments.split(","))
    wanted = (run for run in planned if run.graph in graphs and run.model in models)
    with tempfile.TemporaryDirectory(prefix="starling-averaging-") as scratch:
        place, timed = Path(scratch), not asked.untimed
        done = resume(
            RESULTS, wanted, lambda run: train(run, asked.data, place, timed=timed), "test {test:.4f}  {train_seconds} s"
        )
    write_table("model-averaging.md", "averaging", render(done, asked.seeds))


if __name__ == "__main__":
    main()
