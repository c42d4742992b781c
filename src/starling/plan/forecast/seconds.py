"""Seconds of an epoch: prices of steps (plan/price.py) on a calibrated machine, joined by the simulation of workers and links.

The overlap schedule is that of the hybrid engine. Forward: products that come first, rows sent, sums over own rows while they fly,
others' blocks added as they come, the rest. Backward: mirrors' gradients first and sent, own ones while they fly. Attention, and
whatever is not a sum, is taken to wait for all rows: groups of rows are left out. Then gradients are summed, slice by slice
(comm/team.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from starling.plan.calibration import Rates
from starling.plan.forecast.cut import Cut
from starling.plan.forecast.events import Exchange, simulate
from starling.plan.forecast.facts import GraphFacts
from starling.plan.forecast.memory import share_of
from starling.plan.forecast.model import ATTENTION, ForecastModel, product_first
from starling.plan.forecast.network import Network
from starling.plan.forecast.sizes import StepSize
from starling.plan.forecast.traffic import FLOAT, Traffic
from starling.plan.forecast.ways import Way
from starling.plan.model_work import LayerShape, LayerSize, layer_work
from starling.plan.price import LayerPrice, StepKind, StepPrice, price_step, product_seconds, sum_seconds

_DIRECT = 1 << 12
_COPY_PASSES = 2
"""Packing rows into a message, and adding them to others, each reads and writes them once."""


@dataclass(frozen=True)
class Cluster:
    """The machines that compute: rates of one worker, how workers share cores, and their network."""

    rates: Rates
    network: Network
    crowding: float = 1.0
    """How much longer computation takes because workers share cores."""


@dataclass(frozen=True)
class EpochSeconds:
    """Seconds of an epoch, and the share of them that workers spend waiting for messages."""

    seconds: float
    waiting_share: float = 0.0


def epoch_seconds(
    facts: GraphFacts, model: ForecastModel, way: Way, step: StepSize, cut: Cut, sent: Traffic, cluster: Cluster
) -> EpochSeconds:
    """Training of one epoch, evaluation left out."""
    kind = StepKind(planned=not step.whole, constant=step.whole and model.sums_input and way.boundary > 0)
    if way.alone:
        price = price_step(model.shape, step.layers, step.targets, cluster.rates, kind)
        return EpochSeconds(price.seconds * step.steps)
    if way.in_turn:
        return _in_turn(facts, model, way, step, cut, sent, cluster)
    if way.parallel == "data":
        return _data(facts, model, way, step, sent, cluster)
    mean = _mean_share(step, facts, cut)
    price = price_step(model.shape, mean.layers, mean.targets, cluster.rates, kind)
    exchanges = _layer_exchanges(model, way, mean, price, cut, sent, cluster)
    exchanges += _sum_exchanges(model, way.workers, cluster)
    began = exchanges[0]
    exchanges[0] = Exchange(began.before + price.planning * cluster.crowding, began.during, began.adding, began.message)
    found = simulate(tuple(exchanges), price.updating * cluster.crowding, loads(cut, facts), cluster.network)
    return EpochSeconds(found.seconds * step.steps, found.waiting / found.seconds if found.seconds else 0.0)


def loads(cut: Cut, facts: GraphFacts) -> NDArray[np.float64]:
    """Work of every worker over the mean: one has the largest share, the others divide the rest."""
    most = max(cut.edges * cut.shares / max(facts.edges, 1), cut.nodes * cut.shares / max(facts.nodes, 1), 1.0)
    most = min(most, cut.shares)
    load = np.full(cut.shares, (cut.shares - most) / max(cut.shares - 1, 1))
    load[0] = most
    return load


def _mean_share(step: StepSize, facts: GraphFacts, cut: Cut) -> StepSize:
    """An average worker's rows and edges of a step that all compute together."""
    mean = Cut(
        cut.shares,
        facts.nodes / cut.shares,
        cut.copies / cut.shares,
        facts.edges / cut.shares,
        cut.copies,
        cut.edge_cut,
        cut.exact,
    )
    return share_of(step, facts, mean)


def _layer_exchanges(
    model: ForecastModel, way: Way, mine: StepSize, price: StepPrice, cut: Cut, sent: Traffic, cluster: Cluster
) -> list[Exchange]:
    """The layers' messages, forward and then backward; layers without any are computed ahead of the next ones."""
    there: list[Exchange] = []
    back: list[Exchange] = []
    ahead = behind = 0.0
    for index, (layer, size) in enumerate(zip(model.layers, mine.layers, strict=True)):
        moved, paid = sent.layers[index], price.layers[index]
        if not moved.columns or not moved.rows:
            ahead, behind = ahead + paid.forward * cluster.crowding, behind + paid.backward * cluster.crowding
            continue
        message = moved.rows * moved.columns * FLOAT / way.workers / (way.workers - 1)
        moving = _COPY_PASSES * message * (way.workers - 1) / cluster.rates.memory_bandwidth
        forward, backward = _parts(layer, size, paid, cluster.rates, cut, first=index == 0)
        there.append(forward.exchange(ahead, message, moving, cluster.crowding))
        ahead = forward.after * cluster.crowding
        if moved.directions == 2:
            back.insert(0, backward.exchange(0.0, message, moving, cluster.crowding))
        else:
            behind += paid.backward * cluster.crowding
    exchanges = there + back
    if not exchanges:
        return []
    turn = len(there) if back else len(there) - 1
    first = exchanges[turn]
    exchanges[turn] = Exchange(first.before + ahead, first.during, first.adding, first.message)
    last = exchanges[-1]
    exchanges[-1] = Exchange(last.before, last.during, last.adding + behind, last.message)
    return exchanges


@dataclass(frozen=True)
class _Parts:
    """A layer's seconds in one direction: before rows are sent, while they fly, when they have come, after that."""

    before: float
    during: float
    adding: float
    after: float

    def exchange(self, ahead: float, message: float, moving: float, crowding: float) -> Exchange:
        return Exchange(
            ahead + (self.before + moving / 2) * crowding,
            self.during * crowding,
            (self.adding + moving / 2) * crowding,
            message,
        )


def _parts(
    layer: LayerShape, size: LayerSize, paid: LayerPrice, rates: Rates, cut: Cut, *, first: bool
) -> tuple[_Parts, _Parts]:
    work = layer_work(layer, size, first=first)
    there = sum_seconds(size.destinations, size.edges, size.sources, work.columns, rates)
    back = sum_seconds(size.sources, size.edges, size.destinations, work.columns, rates)
    sums = min(work.forward_sums * rates.overall * there, paid.forward)
    turned = min(work.backward_sums * rates.overall * back, paid.backward)
    rest, rest_back = paid.forward - sums, paid.backward - turned
    if layer.kind in ATTENTION or layer.kind == "rgcn":
        dense = min(rates.overall * sum(product_seconds(product, rates)[0] for product in work.products), rest)
        return _Parts(dense, 0.0, paid.forward - dense, 0.0), _Parts(paid.backward - dense, 0.0, dense, 0.0)
    others = min(cut.edge_cut, 1.0)
    if product_first(layer, size, first=first, kept_sums=False):
        return _Parts(rest, sums * (1 - others), sums * others, 0.0), _Parts(
            turned * others, turned * (1 - others), rest_back, 0.0
        )
    return (
        _Parts(0.0, sums * (1 - others), sums * others, rest),
        _Parts(rest_back + turned * others, turned * (1 - others), 0.0, 0.0),
    )


def _sum_exchanges(model: ForecastModel, workers: int, cluster: Cluster) -> list[Exchange]:
    """The sum of gradients: whole to everybody where they are few, else a slice of each worker's to add, and the sums back."""
    numbers = 1 + model.tensors + model.weights
    adding = FLOAT * numbers / cluster.rates.memory_bandwidth * cluster.crowding
    if numbers <= _DIRECT:
        return [Exchange(0.0, 0.0, adding * workers, FLOAT * numbers)]
    message = FLOAT * numbers / workers
    return [Exchange(adding, 0.0, adding, message), Exchange(0.0, 0.0, adding, message)]


def _data(facts: GraphFacts, model: ForecastModel, way: Way, step: StepSize, sent: Traffic, cluster: Cluster) -> EpochSeconds:
    """Batches of one's own: fetching runs beside computing, the slower of the two counts."""
    kind = StepKind(planned=True)
    price = price_step(model.shape, step.layers, step.targets, cluster.rates, kind)
    computing = (price.seconds - price.updating) * cluster.crowding
    fetching = sent.fetched / way.workers / cluster.network.bandwidth + 2 * len(step.layers) * cluster.network.latency
    exchanges = _sum_exchanges(model, way.workers, cluster)
    exchanges[0] = Exchange(exchanges[0].before + max(computing, fetching), 0.0, exchanges[0].adding, exchanges[0].message)
    found = simulate(tuple(exchanges), price.updating * cluster.crowding, np.ones(way.workers), cluster.network)
    return EpochSeconds(found.seconds * step.steps, max(0.0, fetching - computing) / found.seconds)


def _in_turn(
    facts: GraphFacts, model: ForecastModel, way: Way, step: StepSize, cut: Cut, sent: Traffic, cluster: Cluster
) -> EpochSeconds:
    """Parts one after the other: each is read, trained on, and left; then models are averaged."""
    rows = cut.nodes + cut.halo
    sizes = (LayerSize(rows, rows, cut.edges),) * len(model.layers) if step.whole else step.layers
    price = price_step(model.shape, sizes, step.targets / way.parts, cluster.rates, StepKind(planned=True))
    reading = (FLOAT * rows * facts.features + 8 * cut.edges) * 2 / cluster.rates.memory_bandwidth
    rounds = -(-way.parts // way.workers)
    averaging = sent.epoch_bytes / max(way.workers, 1) / cluster.network.bandwidth
    steps = 1 if step.whole else -(-step.steps // way.parts)
    return EpochSeconds((price.seconds * steps + reading) * rounds * cluster.crowding + averaging)
