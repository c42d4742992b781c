"""Predicted against measured time of a training step, over 30 settings of model, strategy and graph.

    python bench/cost_model.py [--calibration FILE]     # a calibration and 60 runs; run nothing else
    python bench/cost_model.py --tiny                   # a trial with small graphs that prints the table and keeps nothing
    python bench/cost_model.py --render                 # only write the table anew

The machine is calibrated first, unless a record is given. Each setting is a run of ``starling train`` in one process with all
cores, once in each round; its step is the lower quartile of all rounds' epochs, each run's first third left out, divided by their
steps: as in the calibration, since whatever else the machine does can only make an epoch longer. The prediction prices the sizes
of real batches (`sizes`) and, of mini-batches, also those expected from degrees alone (`expected`). Raw lines go to
``results/cost_model.json``, the table into docs/cost-model.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from command import starling, trained
from doc_tables import write_table
from starling.plan.calibration import Rates, read_calibration
from starling.plan.expected_sizes import degrees_of, expected_sizes, whole_sizes
from starling.plan.fanouts import one_a_layer
from starling.plan.mini import Mini
from starling.plan.model_work import ModelShape, model_shape
from starling.plan.price import StepKind, locality_of, price_step, sizes_of_plan
from starling.plan.source import NeighbourSource, source_of_graph
from starling.plan.strategy import PlanTask
from starling.store.graph import open_graph

RESULTS = Path(__file__).parent / "results" / "cost_model.json"
GRAPHS = {"small": (20_000, 200_000, 64, 10), "large": (100_000, 1_000_000, 128, 40)}
TINY = {"small": (1_000, 8_000, 16, 4), "large": (3_000, 30_000, 32, 6)}
MODELS = ("gcn", "sage", "gat", "gatv2", "gin")
STRATEGIES = ("global", "all", "sampled")
BATCH, PLANS = 512, 5
EPOCHS = {"small": 30, "large": 9}


@dataclass(frozen=True)
class Setting:
    """One line of the table."""

    graph: str
    model: str
    strategy: str
    layers: int
    hidden: int

    @property
    def fanouts(self) -> str:
        return ",".join(("10", "5", "5")[: self.layers]) if self.strategy == "sampled" else ",".join(["all"] * self.layers)


def settings() -> list[Setting]:
    """Thirty, with depths and widths taking turns."""
    found = []
    for g, graph in enumerate(GRAPHS):
        for m, model in enumerate(MODELS):
            for s, strategy in enumerate(STRATEGIES):
                turn = g + m + s
                found.append(Setting(graph, model, strategy, 2 + turn % 2, (32, 64, 128)[turn % 3]))
    return found


def epochs_of(setting: Setting, graph: Path, targets: int, epochs: int) -> list[float]:
    """Seconds of each epoch but for the first ones of the process."""
    mini = () if setting.strategy == "global" else ("--batch-size", min(BATCH, targets), "--fanouts", setting.fanouts)
    _, lines = trained(
        graph, "--model", setting.model, "--layers", setting.layers, "--hidden", setting.hidden, "--epochs", epochs,
        "--evaluate-every", epochs, "--strategy", "mini" if mini else "global", *mini,
    )  # fmt: skip
    return [line["seconds"] for line in lines[len(lines) // 3 :]]


def step_seconds(epochs: list[float], setting: Setting, targets: int) -> float:
    """A step of the faster epochs."""
    typical = sorted(epochs)[len(epochs) // 4]
    return typical if setting.strategy == "global" else typical / max(targets / BATCH, 1)


def predicted(
    setting: Setting, shape: ModelShape, source: NeighbourSource, train: np.ndarray, rates: Rates
) -> dict[str, float]:
    """Seconds of a step from real sizes, and from expected ones."""
    if setting.strategy == "global":
        whole = whole_sizes(source.rows, len(source.incoming.neighbours), setting.layers)
        constant = setting.model in ("gcn", "sage", "gin")
        seconds = price_step(shape, whole, len(train), rates, StepKind(planned=False, constant=constant)).seconds
        return {"sizes": seconds}
    task = PlanTask(source, train, setting.layers)
    strategy = Mini(Mini.Settings(batch_size=min(BATCH, len(train)), fanouts=setting.fanouts), task)  # type: ignore[arg-type]
    found = []
    for step in range(min(PLANS, strategy.steps_per_epoch)):
        plan = strategy.plan(1, step)
        near = min(locality_of(block) for block in plan.blocks)
        kind = StepKind(planned=True, locality=near)
        found.append(price_step(shape, sizes_of_plan(plan), len(plan.targets), rates, kind).seconds)
    outgoing = np.bincount(source.incoming.neighbours, minlength=source.rows)
    degrees = degrees_of(np.diff(source.incoming.offsets), outgoing)
    sizes = expected_sizes(degrees, min(BATCH, len(train)), one_a_layer(strategy.settings.fanouts, setting.layers))
    drawn = price_step(shape, sizes, min(BATCH, len(train)), rates, StepKind(planned=True)).seconds
    return {"sizes": statistics.mean(found), "expected": drawn}


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    record = options.calibration
    if record is None:
        record = folder / "calibration.json"
        starling("calibrate", "-o", record, *(["--quick"] if options.tiny else []))
    rates = max(read_calibration(record).rates, key=lambda rates: rates.threads)
    sizes = TINY if options.tiny else GRAPHS
    lines: dict[Setting, dict[str, Any]] = {}
    for round_, (name, (nodes, edges, features, classes)) in itertools.product(range(options.rounds), sizes.items()):
        path = folder / name
        if round_ == 0:
            size = ("--nodes", nodes, "--edges", edges, "--features", features, "--classes", classes)
            starling("generate", "dcsbm", *size, "--split", "5/5/90", "-o", path)
        graph = open_graph(path)
        source, train = source_of_graph(graph), np.flatnonzero(np.asarray(graph.node_table("train")))
        for setting in (one for one in settings() if one.graph == name):
            if setting not in lines:
                shape = model_shape(setting.model, features, classes, layers=setting.layers, hidden=setting.hidden)
                guess = predicted(setting, shape, source, train, rates)
                lines[setting] = {**vars(setting), "nodes": nodes, "edges": edges, **guess, "epochs": []}
            line = lines[setting]
            line["epochs"] += epochs_of(setting, path, len(train), 4 if options.tiny else EPOCHS[name])
            line["measured"] = step_seconds(line["epochs"], setting, len(train))
            print(json.dumps({**line, "epochs": len(line["epochs"])}), flush=True)
    return list(lines.values())


def _median_step(line: dict[str, Any]) -> float:
    """A step of the median epoch, from that of the faster ones."""
    epochs = sorted(line["epochs"])
    return float(line["measured"] * statistics.median(epochs) / epochs[len(epochs) // 4])


def table(lines: list[dict[str, Any]]) -> str:
    errors = {
        kind: [abs(line[kind] / line["measured"] - 1) for line in lines if kind in line] for kind in ("sizes", "expected")
    }
    slower = [abs(line["sizes"] / _median_step(line) - 1) for line in lines]
    real, drawn, seen = (100 * statistics.median(found) for found in (errors["sizes"], errors["expected"], slower))
    rows = [
        f"Median error {real:.0f} % from real sizes over {len(lines)} settings, {drawn:.0f} % from expected sizes. Measured is the "
        f"lower quartile of epochs; against the median epoch of the same runs, what a user sees, the error from real sizes is "
        f"{seen:.1f} %.",
        "",
        "| graph | model | layers × hidden | step | measured, ms | predicted, ms | from expected sizes, ms |",
        "|---|---|---|---|---:|---:|---:|",
    ]
    for line in lines:
        expected = f"{1e3 * line['expected']:.1f}" if "expected" in line else ""
        what = {"global": "global", "all": f"{BATCH} targets", "sampled": f"{BATCH} targets, sampled"}[line["strategy"]]
        rows.append(
            f"| {line['nodes']:,} nodes | {line['model']} | {line['layers']} × {line['hidden']} | {what} | "
            f"{1e3 * line['measured']:.1f} | {1e3 * line['sizes']:.1f} | {expected} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calibration", type=Path, help="a record of starling calibrate")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tiny", action="store_true", help="graphs of a few thousand nodes, to try the script")
    parser.add_argument("--render", action="store_true", help="write the table from kept lines only")
    options = parser.parse_args()
    if not options.render:
        with tempfile.TemporaryDirectory() as folder:
            lines = measure(options, Path(folder))
        if options.tiny:
            print(table(lines))
            return
        RESULTS.write_text(json.dumps(lines, indent=1) + "\n")
    write_table("cost-model.md", "cost_model", table(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
