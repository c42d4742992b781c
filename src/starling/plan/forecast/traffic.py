"""Bytes that workers send one another in an epoch, all of them together, as the ledger of a run counts them.

Hybrid: a copy's row goes from its owner to each worker that mirrors it, once a layer, and its gradient comes back; the first layer
sends nothing where it sums input features as they are. Data: features and neighbour lists of rows that others own. Every step ends
with the gradients' sum (comm/team.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from starling.plan.forecast.cut import Cut
from starling.plan.forecast.facts import GraphFacts
from starling.plan.forecast.model import RELATIONAL, ForecastModel, product_first
from starling.plan.forecast.sizes import StepSize
from starling.plan.forecast.ways import Way
from starling.plan.model_work import LayerShape, LayerSize

FLOAT, INDEX, SUM = 4, 8, 8
"""Bytes of a number, a place, and a number of models that are averaged (train/averaging/model_average.py)."""
AVERAGED = 3
"""Numbers a weight that are averaged: itself and Adam's two moments."""
_DIRECT = 1 << 12
"""Sums of up to so many numbers are sent whole to everybody (comm/team.py)."""


@dataclass(frozen=True)
class LayerTraffic:
    """What one layer of a step sends: rows that are mirrored, over all workers, their columns, and how often they go."""

    rows: float
    columns: int
    directions: int

    @property
    def bytes(self) -> float:
        """Of one step, in float32."""
        return self.rows * self.columns * self.directions * FLOAT


@dataclass(frozen=True)
class Traffic:
    """Bytes of one step over all workers."""

    layers: tuple[LayerTraffic, ...]
    fetched: float
    """Features and lists of others' rows, for batches of one's own."""
    planned: float
    reduced: float
    steps: float

    @property
    def step_bytes(self) -> float:
        """Of one step."""
        return sum(layer.bytes for layer in self.layers) + self.fetched + self.planned + self.reduced

    @property
    def epoch_bytes(self) -> int:
        """Of an epoch."""
        return int(self.step_bytes * self.steps)


def columns_sent(layer: LayerShape, size: LayerSize, *, first: bool) -> int:
    """Columns of the rows that mirrors of a layer receive; zero where none need be sent."""
    if layer.kind == "mlp" or (first and layer.kind in ("gcn", "sage", "gin", "sgc")):
        return 0
    return layer.width if product_first(layer, size, first=first, kept_sums=False) else layer.fan_in


def mirrored_rows(size: LayerSize, cut: Cut, *, whole: bool) -> float:
    """Rows of a layer that workers hold for others, all together: all copies, or as many as a batch's edges reach."""
    if whole or cut.copies == 0:
        return cut.copies
    across = size.edges * cut.edge_cut
    return cut.copies * (1 - math.exp(-across / cut.copies))


def reduced_bytes(numbers: int, workers: int) -> float:
    """Bytes of one sum over all workers."""
    times = workers * (workers - 1) if numbers <= _DIRECT else 2 * (workers - 1)
    return float(FLOAT * numbers * times)


def traffic(facts: GraphFacts, model: ForecastModel, way: Way, step: StepSize, cut: Cut, *, together: bool = False) -> Traffic:
    """The traffic of a way to train; nothing for one process. `together`: workers of one machine read one another's files."""
    if way.workers == 1:
        return Traffic((), 0.0, 0.0, 0.0, step.steps)
    reduced = reduced_bytes(1 + model.tensors + model.weights, way.workers)
    if way.in_turn:
        averaged = float(SUM * AVERAGED * model.weights * 2 * (way.workers - 1))  # from worker to worker, and the whole to each
        return Traffic((), 0.0, 0.0, averaged, 1)
    if way.parallel == "data":
        fetched = 0.0 if together else _fetched(facts, step, cut) * way.workers
        return Traffic((), fetched, 0.0, reduced, step.steps)
    pairs = way.workers * (way.workers - 1)
    planned = float(INDEX * (3 * len(model.layers) + 1) * pairs)
    layers = []
    for index, (layer, size) in enumerate(zip(model.layers, step.layers, strict=True)):
        rows = mirrored_rows(size, cut, whole=step.whole)
        columns = columns_sent(layer, size, first=index == 0)
        constant = index == 0 and layer.kind in RELATIONAL  # input features have no gradient to send back
        layers.append(LayerTraffic(rows * way.boundary, columns, 1 if constant or layer.kind == "sgc" else 2))
        planned += 0.0 if step.whole and way.boundary == 1 else INDEX * rows
    return Traffic(tuple(layers), 0.0, planned, reduced, step.steps)


def _fetched(facts: GraphFacts, step: StepSize, cut: Cut) -> float:
    """What one worker asks of the others for a batch: lists of rows hop by hop, then features of all inputs."""
    asked, elsewhere = 0.0, 0.0
    for hop, size in enumerate(reversed(step.layers)):
        elsewhere = 1 - (1 - min(cut.edge_cut, 1.0)) ** hop
        remote = size.destinations * elsewhere
        asked += INDEX * remote + (INDEX + 4) * size.edges * elsewhere
    elsewhere = 1 - (1 - min(cut.edge_cut, 1.0)) ** len(step.layers)
    return asked + step.inputs * elsewhere * (FLOAT * facts.features + INDEX)
