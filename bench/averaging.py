"""How often to average: intervals of 1, 5, 10, 20 and 50 epochs, time and accuracy (CATGNN's Figure 11).

    python bench/averaging.py [--data DIR] [--graphs coauthor_cs,…] [--models gcn,gat,sage] [--seeds 3]
    python bench/averaging.py --render          # only write the table anew

Four parts by two workers that are processes, 100 epochs of mini-batches as in data_accuracy.py: 270 runs, for which plan hours;
run nothing else. Every run is a line of results/averaging.jsonl; what is there already is not run again, so the script may be
stopped at any time. Synchronisation is what workers spent on sending, receiving and adding models, without waiting for one
another's training. The table goes to docs/model-averaging.md.
"""

from __future__ import annotations

import argparse
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
from kept_lines import read_lines, resume
from settings import merge

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "averaging.jsonl"
GRAPHS, EVERY, PARTS, WORKERS, EPOCHS = ("pubmed", "coauthor_cs", "amazon_photo"), (1, 5, 10, 20, 50), 4, 2, 100


@dataclass(frozen=True)
class Run:
    """One training."""

    graph: str
    model: str
    seed: int
    every: int
    correct: bool = False

    @property
    def key(self) -> str:
        return f"{self.graph}/{self.model}/{self.seed}/{self.every}" + ("/correct" if self.correct else "")


def all_runs(seeds: int) -> Iterator[Run]:
    for seed in range(seeds):
        for graph in GRAPHS:
            for model in MODELS:
                for every in EVERY:
                    yield Run(graph, model, seed, every)
                    yield Run(graph, model, seed, every, correct=True)


def train(run: Run, data: Path, scratch: Path) -> dict[str, Any]:
    """Do one run; a JSON line."""
    path = prepare_parts(CASES[run.graph], data, scratch, run.seed, PARTS)
    changes = {
        "team": {"workers": WORKERS},
        "sync": {"every": run.every, "correct": run.correct},
        "run": {"epochs": EPOCHS, "evaluate_every": 1, "patience": 0},
    }
    settings = merge(settings_of(Settings(run.graph, run.model, run.seed, PARTS, "average"), path), changes)
    shutil.rmtree(scratch / "run", ignore_errors=True)
    result = starling.Trainer(settings, run=scratch / "run").fit()
    lines = read_lines(scratch / "run" / "metrics.jsonl")
    rounds = lines[run.every - 1 :: run.every]  # the epochs of a round share its account
    syncing = sum(max(worker["reducing"] + worker["communication"] for worker in line["workers"]) for line in rounds)
    found = {"val": result.scores.val, "test": result.scores.test, "best_epoch": result.best_epoch}
    times = {"train_seconds": round(sum(line["seconds"] for line in lines), 3), "sync_seconds": round(syncing, 4)}
    sent = sum(sum(worker["bytes_to"]) for line in rounds for worker in line["workers"])
    return {"key": run.key, **vars(run)} | found | times | {"bytes_sent": sent}


def render(done: dict[str, dict[str, Any]], seeds: int) -> str:
    out = [
        f"{PARTS} parts, {WORKERS} workers, {EPOCHS} epochs; means over seeds, `--correct` behind the stroke.",
        "",
        "| graph | model | every | test accuracy | training | synchronisation | sent | seeds |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for graph in GRAPHS:
        for model in MODELS:
            for every in EVERY:
                lines = [
                    [done[run.key] for seed in range(seeds) if (run := Run(graph, model, seed, every, correct)).key in done]
                    for correct in (False, True)
                ]
                if not lines[0]:
                    continue

                def both(name: str, form: str, factor: float = 1, lines: list[Any] = lines) -> str:
                    means = [statistics.mean(factor * line[name] for line in some) for some in lines if some]
                    return " / ".join(format(mean, form) for mean in means)

                out.append(
                    f"| {graph} | {model} | {every} | {both('test', '.2f', 100)} | {both('train_seconds', '.1f')} s | "
                    f"{both('sync_seconds', '.1f', 1000)} ms | {both('bytes_sent', '.1f', 2**-20)} MiB | {len(lines[0])} |"
                )
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data", help="directory of .npz files")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--render", action="store_true", help="only write the table anew")
    asked = parser.parse_args()
    graphs, models = asked.graphs.split(","), asked.models.split(",")
    planned = () if asked.render else all_runs(asked.seeds)
    wanted = (run for run in planned if run.graph in graphs and run.model in models)
    with tempfile.TemporaryDirectory(prefix="starling-averaging-") as scratch:
        done = resume(RESULTS, wanted, lambda run: train(run, asked.data, Path(scratch)), "test {test:.4f}  {train_seconds} s")
    write_table("model-averaging.md", "averaging", render(done, asked.seeds))


if __name__ == "__main__":
    main()
