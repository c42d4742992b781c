"""Accuracy on real graphs: means over seeds, Starling and PyG trained with the same settings on the same graph directories.

    python bench/accuracy.py [--data DIR] [--only citation,mini,all] [--graphs cora,…] [--sides starling,pyg]
    python bench/accuracy.py --render           # only write docs/accuracy.md anew

All 2,722 runs take about seven hours of one core, two of them for Starling's side; a run is seconds, at most two minutes. Each
is a JSON line in results/accuracy.jsonl; what is there already is not run again, so the script may be stopped at any time. Runs
go seed by seed, so that the table is whole early and gets sharper. Test accuracy is that of the epoch that was best on
validation; docs/accuracy.md, where the tables go, says how settings were chosen.
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
from pathlib import Path
from typing import Any

os.environ.setdefault("STARLING_THREADS", "1")

import torch

import starling
from accuracy_graphs import GRAPHS, KEPT_COLUMNS, SKIPPED, SPLITS, WIDEST, LabelledGraph, prepare
from accuracy_pyg import train_with_pyg
from doc_tables import write_between
from kept_lines import resume
from settings import Tables, digest, merge

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "accuracy.jsonl"
MARKS = ("<!-- tables: python bench/accuracy.py --render -->", "<!-- end of tables -->")
CITATION = ("cora", "citeseer", "pubmed")

GCN: Tables = {
    "model": {"name": "gcn", "hidden": 64, "dropout": 0.5, "input_dropout": 0.5},
    "optimizer": {"lr": 0.01, "weight_decay": 5e-4, "decay_on": "first"},
    "run": {"epochs": 200, "evaluate_every": 2},
}
GAT: Tables = {
    "model": {"name": "gat", "hidden": 64, "heads": 8, "dropout": 0.6, "input_dropout": 0.6, "attention_dropout": 0.6},
    "optimizer": {"lr": 0.005, "weight_decay": 5e-4},
    "run": {"epochs": 200, "evaluate_every": 2},
}
GAT_PUBMED: Tables = {"model": {"output_heads": 8}, "optimizer": {"lr": 0.01, "weight_decay": 1e-3}}
"""Veličković et al.'s own changes for Pubmed."""
MINI: dict[str, dict[str, Any]] = {
    "cora": {"name": "mini", "batch_size": 70},
    "citeseer": {"name": "mini", "batch_size": 60},
    "pubmed": {"name": "mini", "batch_size": 30},
}
COMMON: Tables = {
    "model": {"hidden": 32, "layers": 2, "dropout": 0.5},
    "optimizer": {"lr": 0.02, "weight_decay": 5e-4},
    "run": {"epochs": 40, "evaluate_every": 5},
}
OWN: Tables = {
    "gat": {"heads": 4},
    "gatv2": {"heads": 4},
    "gate": {"heads": 4, "edge_message": False},
    "sgc": {"layers": 2},
    "rgcn": {"bases": 8},
}
"""What a model's settings have beside, or for sgc instead of, the common ones; gate without messages is what PyG has."""
PLAIN = ("gcn", "sage", "gat", "gatv2", "gin", "sgc", "mlp")
MODELS = dict.fromkeys(GRAPHS, PLAIN) | {
    **dict.fromkeys(("hgb_acm", "hgb_dblp", "rdf_aifb", "rdf_mutag"), (*PLAIN, "rgcn")),
    "bitcoin_otc": (*PLAIN, "gate"),
}
SEEDS, PYG_SEEDS = 10, 2


@dataclass(frozen=True)
class Run:
    """One training run of the tables."""

    table: str
    graph: str
    model: str
    side: str
    seed: int
    settings: Tables

    @property
    def key(self) -> str:
        """Names the run with all its settings: a line with another key is another run's."""
        return f"{self.table}/{self.graph}/{self.model}/{self.side}/{self.seed}/{digest(self.settings)}"


def settings_of(table: str, graph: LabelledGraph, model: str) -> Tables:
    """The settings of a run but for the path and the seed."""
    task = {"task": {"metric": graph.metric}} if graph.metric else {}
    base: Tables = {"data": {"normalize": graph.normalize}, **task}
    if table != "all":
        chosen = merge(base, GCN) if model == "gcn" else merge(base, GAT, GAT_PUBMED if graph.name == "pubmed" else {})
        return merge(chosen, {"strategy": MINI[graph.name]}) if table == "mini" else chosen
    norm = {"norm": "batch"} if graph.many_labels else {}
    common = {} if model == "sgc" else {**COMMON["model"], **norm}
    own = {"model": {"name": model, **common, **OWN.get(model, {})}}
    return merge(base, COMMON) | own


def all_runs() -> Iterator[Run]:
    """Seed by seed, so that the tables are whole early."""
    rows = [("citation", "gcn", "starling"), ("mini", "gcn", "starling"), ("citation", "gat", "starling")]
    beside = [("citation", "gcn", "pyg"), ("citation", "gat", "pyg")]
    for seed in range(SEEDS):
        for table, model, side in rows + (beside if seed < PYG_SEEDS else []):
            for name in CITATION:
                yield Run(table, name, model, side, seed, settings_of(table, GRAPHS[name], model))
        for name, graph in GRAPHS.items():
            for model in MODELS[name]:
                for side in ("starling", "pyg"):
                    yield Run("all", name, model, side, seed, settings_of("all", graph, model))


def train(run: Run, data: Path, scratch: Path) -> dict[str, Any]:
    """Do one run; a JSON line."""
    place = prepare(GRAPHS[run.graph], data, scratch, run.seed)
    tables = merge(run.settings, {"data": {"path": str(place)}, "run": {"seed": run.seed}})
    began = time.process_time()
    if run.side == "pyg":
        found = train_with_pyg(tables)
    else:
        directory = scratch / "run"
        shutil.rmtree(directory, ignore_errors=True)
        result = starling.Trainer(tables, run=directory).fit()
        found = {"val": result.scores.val, "test": result.scores.test}
        found |= {"best_epoch": result.best_epoch, "epochs": result.epochs}
    known = {"key": run.key, "table": run.table, "graph": run.graph, "model": run.model, "side": run.side, "seed": run.seed}
    return known | found | {"cpu_seconds": round(time.process_time() - began, 1), "settings": run.settings}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data", help="directory of .npz files")
    parser.add_argument("--only", default="citation,mini,all", help="tables")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--sides", default="starling,pyg")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="at most so many")
    parser.add_argument("--render", action="store_true", help="only write the tables anew")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    tables, graphs, sides = asked.only.split(","), asked.graphs.split(","), asked.sides.split(",")
    wanted = (
        run
        for run in (() if asked.render else all_runs())
        if run.table in tables and run.graph in graphs and run.side in sides and run.seed < asked.seeds
    )
    with tempfile.TemporaryDirectory(prefix="starling-accuracy-") as scratch:
        done = resume(RESULTS, wanted, lambda run: train(run, asked.data, Path(scratch)), "val {val:.4f}  test {test:.4f}")
    write_between("accuracy.md", *MARKS, tables_of(done))


def tables_of(done: Mapping[str, Mapping[str, Any]]) -> str:
    found: dict[tuple[str, str, str, str], list[float]] = {}
    for run in all_runs():
        if run.key in done:
            found.setdefault((run.table, run.graph, run.model, run.side), []).append(done[run.key]["test"])
    return "\n\n".join([citation_table(found), all_table(found), graph_table()])


def cell(values: list[float] | None) -> str:
    """Mean ± deviation in per cent."""
    if not values:
        return "–"
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{spread}"


def citation_table(found: Mapping[tuple[str, str, str, str], list[float]]) -> str:
    rows = [
        ("GCN, global", ("citation", "gcn", "starling")),
        ("GCN, mini-batches, all neighbours", ("mini", "gcn", "starling")),
        ("GCN, PyG", ("citation", "gcn", "pyg")),
        ("GAT, global", ("citation", "gat", "starling")),
        ("GAT, PyG", ("citation", "gat", "pyg")),
    ]
    out = ["| | " + " | ".join(CITATION) + " | seeds |", "|---|" + "---:|" * (len(CITATION) + 1)]
    for title, (table, model, side) in rows:
        values = [found.get((table, name, model, side)) for name in CITATION]
        seeds = min(len(value or ()) for value in values)
        out.append(f"| {title} | {' | '.join(map(cell, values))} | {seeds} |")
    return "\n".join(out)


def all_table(found: Mapping[tuple[str, str, str, str], list[float]]) -> str:
    models = (*PLAIN, "gate", "rgcn")
    out = ["| graph | | " + " | ".join(models) + " | seeds |", "|---|---|" + "---:|" * (len(models) + 1)]
    missing = [name for name in GRAPHS if not any(("all", name, model, "starling") in found for model in models)]
    for name in GRAPHS:
        for side in ("starling", "pyg") if name not in missing else ():
            values = [found.get(("all", name, model, side)) for model in models]
            seeds = min((len(v) for v, model in zip(values, models, strict=True) if v and model in MODELS[name]), default=0)
            title = f"{name} | Starling" if side == "starling" else " | PyG"
            out.append(f"| {title} | {' | '.join(map(cell, values))} | {seeds or '–'} |")
    if missing:
        out.append(f"\nNot run yet: {', '.join(missing)}. `python bench/accuracy.py` goes on where it stopped.")
    return "\n".join(out)


def graph_table() -> str:
    out = ["| graph | split | features | scaled | batch norm | metric |", "|---|---|---|---|---|---|"]
    own = {"own": "its own", "degrees": "log in- and out-degree", "relations": "log degree by relation"}
    for name, graph in GRAPHS.items():
        metric = graph.metric or ("micro-F1" if name == "ppi" else "accuracy")
        row = (name, SPLITS[graph.split], own[graph.features], graph.normalize, "yes" if graph.many_labels else "no", metric)
        out.append(f"| {' | '.join(row)} |")
    skipped = "; ".join(f"{names} ({why})" for names, why in SKIPPED.items())
    out.append(
        f"\nFeatures of more than {WIDEST:,} entries (nodes × columns; not the citation graphs') are cut to their {KEPT_COLUMNS} "
        f"most frequent columns, for both sides. Left out: {skipped}."
    )
    return "\n".join(out)


if __name__ == "__main__":
    main()
