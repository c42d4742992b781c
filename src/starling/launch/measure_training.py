"""What only real training shows: the cost of an edge in a batch, of a layer and a step however small, and of it all together.

From real batches and short runs of the ordinary training loop on generated graphs.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from starling.launch.stopwatch import typical_seconds
from starling.plan.calibration import Rates
from starling.plan.expected_sizes import whole_sizes
from starling.plan.mini import Mini
from starling.plan.model_work import model_shape
from starling.plan.price import StepKind, locality_of, price_step, sizes_of_plan
from starling.plan.source import NeighbourSource, source_of_graph
from starling.plan.strategy import PlanTask
from starling.store.graph import Graph, create_graph
from starling.stream.generators import GENERATORS
from starling.stream.ingest import ImportOptions

if TYPE_CHECKING:
    from starling.engine.fill import Filler

_FEATURES, _CLASSES, _HIDDEN = 64, 8, 64
_TINY, _STEPS = 240, 60
_NODES, _EDGES, _BATCH = 20_000, 200_000, 512
_CASES: tuple[tuple[str, str | None], ...] = (
    ("gcn", None),
    ("sage", "10,5"),
    ("gat", "10,5"),
    ("gin", "all,all"),
    ("sage", None),
)
"""Models and fan-outs of the runs that are compared with their prices; None trains on the whole graph."""


def overheads(quick: bool) -> dict[str, float]:
    """Seconds of a layer, of a layer of attention, and of a step that no size explains: from training on next to nothing."""
    mini = {"name": "mini", "batch_size": 2}
    with _generated(_TINY, _TINY, 8, 50) as graph:
        few, many, attentive = (
            _epoch_seconds(graph, {"name": name, "layers": layers, "hidden": 8}, mini, 3 if quick else 7) / _STEPS
            for name, layers in (("gcn", 2), ("gcn", 5), ("gat", 2))
        )
    layer = max((many - few) / 3, 1e-6)
    step = max(few - 2 * layer, 1e-6)
    return {"layer": layer, "attention": max((attentive - step) / 2, layer), "step": step}


def planning(quick: bool) -> float:
    """Seconds of an edge in a batch as training makes it, planned and filled, beyond what a batch costs however small it is."""
    from starling.engine.fill import Filler
    from starling.engine.source import SourceRequest, open_source

    found = []
    with _generated(_NODES, _EDGES, 1, 50) as graph:
        task = PlanTask(source_of_graph(graph), np.flatnonzero(np.asarray(graph.node_table("train"))), 2)
        filler = Filler(open_source(graph.path, SourceRequest()))
        for fanouts in ("10,5", "all,all"):
            edges, seconds = [], []
            for size in (2, _BATCH):
                strategy = Mini(Mini.Settings.model_validate({"batch_size": size, "fanouts": fanouts}), task)
                edges.append(sum(size.edges for size in sizes_of_plan(strategy.plan(1, 0))))
                seconds.append(typical_seconds(partial(_make_batch, filler, strategy), quick))
            found.append(max(seconds[1] - seconds[0], seconds[1] / 4) / (edges[1] - edges[0]))
    return statistics.mean(found)


def _make_batch(filler: Filler, strategy: Mini) -> None:
    filler.fill(strategy.plan(1, 0))


def overall(rates: Rates, quick: bool) -> float:
    """How much longer the part of a step that has a size takes than its price, over a few runs.

    The k that makes the sum of |fixed + k · priced − measured| / measured least: the median of (measured − fixed) / priced, each
    run counting by priced / measured, so that runs which are mostly fixed costs decide little.
    """
    ratios, weights = [], []
    with _generated(_NODES, _EDGES, _FEATURES, 10) as graph:
        source, train = source_of_graph(graph), np.flatnonzero(np.asarray(graph.node_table("train")))
        for name, fanouts in _CASES[:3] if quick else _CASES:
            model = {"name": name, "hidden": _HIDDEN}
            if fanouts is None:
                seconds = _epoch_seconds(graph, model, {"name": "global"}, 6 if quick else 16)
            else:
                mini = {"name": "mini", "batch_size": _BATCH, "fanouts": fanouts}
                seconds = _epoch_seconds(graph, model, mini, 4 if quick else 12) * _BATCH / len(train)
            fixed = rates.step + 2 * (rates.attention if name == "gat" else rates.layer)
            priced = max(_price(name, fanouts, source, train, rates) - fixed, 1e-9)
            ratios.append(max(seconds - fixed, 0.0) / priced)
            weights.append(priced / seconds)
    return max(_weighted_median(ratios, weights), 0.1)


def _weighted_median(values: list[float], weights: list[float]) -> float:
    """The value below which half of the weight lies."""
    order = np.argsort(values)
    reached = np.cumsum(np.array(weights)[order])
    return float(values[int(order[np.searchsorted(reached, reached[-1] / 2)])])


def _price(name: str, fanouts: str | None, source: NeighbourSource, train: Any, rates: Rates) -> float:
    """What a step is predicted to take."""
    shape = model_shape(name, _FEATURES, _CLASSES, hidden=_HIDDEN)
    if fanouts is None:
        whole = whole_sizes(source.rows, len(source.incoming.neighbours), 2)
        return price_step(shape, whole, len(train), rates, StepKind(planned=False, constant=name != "gat")).seconds
    settings = Mini.Settings.model_validate({"batch_size": _BATCH, "fanouts": fanouts})
    plan = Mini(settings, PlanTask(source, train, 2)).plan(1, 0)
    kind = StepKind(planned=True, locality=min(locality_of(block) for block in plan.blocks))
    return price_step(shape, sizes_of_plan(plan), _BATCH, rates, kind).seconds


def _epoch_seconds(graph: Graph, model: dict[str, Any], strategy: dict[str, Any], epochs: int) -> float:
    """An epoch of real training: the lower quartile (`stopwatch.py`) without the first third, which is slower."""
    from starling.train.config import RunConfig
    from starling.train.trainer import fit

    tables = {"data": {"path": graph.path}, "model": model, "strategy": strategy}
    with tempfile.TemporaryDirectory(prefix="starling-calibrate-") as folder:
        seconds: list[float] = []
        watch = _Epochs(seconds)
        run = {"epochs": epochs, "evaluate_every": epochs}
        fit(RunConfig.from_tables({**tables, "run": run}), Path(folder) / "run", watch=watch)
    later = sorted(seconds[len(seconds) // 3 :])
    return later[len(later) // 4]


class _Epochs:
    """Hears how long epochs take."""

    def __init__(self, seconds: list[float]) -> None:
        self._seconds = seconds

    def begin(self, epochs: int, steps: int, metric: str) -> None:
        """Training begins."""

    def step(self, epoch: int, step: int, loss: float) -> None:
        """A step is done."""

    def epoch(self, record: Any) -> None:
        """An epoch is done."""
        self._seconds.append(record.seconds)


@contextmanager
def _generated(nodes: int, edges: int, features: int, train: int) -> Iterator[Graph]:
    """A graph for as long as the block lasts; `train` is the share of training nodes in per cent."""
    generator = GENERATORS["dcsbm"]
    split = (train, 5, 5)
    settings = generator.settings(nodes=nodes, edges=edges, classes=_CLASSES, features=features, split=split, seed=0)
    options = ImportOptions(direction="undirected", self_loops="drop", duplicates="drop")
    with tempfile.TemporaryDirectory(prefix="starling-calibrate-") as folder:
        yield create_graph(generator.make(settings), Path(folder) / "graph", options)
