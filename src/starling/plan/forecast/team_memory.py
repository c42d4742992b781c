"""Memory of the largest worker of a team (engine/hybrid, engine/data), and of one that takes its parts in turn."""

from __future__ import annotations

from starling.core.memory import TRAINING_PROGRAM_BYTES
from starling.plan.forecast.activations import FLOAT, pass_bytes, step_bytes, turned_bytes
from starling.plan.forecast.cut import Cut
from starling.plan.forecast.facts import GraphFacts
from starling.plan.forecast.holes import held_step_bytes
from starling.plan.forecast.memory import (
    BASE_BYTES,
    MARGIN,
    WORKER_BYTES,
    Memory,
    batch_bytes,
    edge_table_bytes,
    grouping_bytes,
    kept_plan_bytes,
    label_bytes,
    share_of,
    weight_bytes,
)
from starling.plan.forecast.model import ForecastModel
from starling.plan.forecast.process_memory import process_memory
from starling.plan.forecast.sizes import StepSize
from starling.plan.forecast.traffic import AVERAGED, columns_sent
from starling.plan.forecast.ways import Way
from starling.plan.model_work import LayerSize

_REDUCING = 1.5
"""Weights and their copies, with those of a sum over workers."""
_GROUPING_BYTES = 1 << 30
"""What a run may take to find groups where no --memory is given (train/grouping.py)."""
_PIPELINE, _PIPELINE_BYTES = 2, 1 << 30
"""Batches between the stages of the data-parallel pipeline, over those of one process; bytes after which none is begun."""
_LEAST_ROOM = 64 << 20
"""Averaging: the least that the program must leave of a budget."""


def worker_memory(
    facts: GraphFacts, model: ForecastModel, way: Way, step: StepSize, cut: Cut, limit: int, *, together: bool = True
) -> Memory:
    """The peak of the largest worker of a way to train; `together`: all workers are on one machine."""
    if way.alone:
        return process_memory(facts, model, way.strategy, step, limit)
    if way.in_turn:
        return _in_turn(facts, model, way, step, cut, limit)
    return _data(facts, model, way, step, cut, together) if way.parallel == "data" else _hybrid(facts, model, way, step, cut)


def _hybrid(facts: GraphFacts, model: ForecastModel, way: Way, step: StepSize, cut: Cut) -> Memory:
    """All compute one step together, each its own rows; mirrors' rows come and go."""
    own, mirrors, edges, rows = cut.nodes, cut.halo, cut.edges, cut.nodes + cut.halo
    lists = 8 * own + 16 * edges  # those made, and the files they were made from
    graph = lists + 4 * edges + 60 * rows + _own_tables(facts, model, cut)
    if model.turns_edges or model.sums_input:  # edges by the owner of their source, both ways
        graph += 8 * edges + 8 * own + turned_bytes(model, LayerSize(rows, own, edges)) + 4 * edges * cut.edge_cut
    features = FLOAT * own * facts.features
    grouping = grouping_bytes(facts, way.strategy, step)  # by the first worker, for all
    loading = lists + 4 * edges + 32 * rows + features + grouping
    if model.sums_input:
        hops = len(model.layers) if model.name == "sgc" else 1
        features += FLOAT * own * facts.features * hops  # sums that are kept; evaluation's, where steps are batches
        features += 0.0 if step.whole else FLOAT * mirrors * facts.features  # fetched once
    mine = share_of(step, facts, cut)
    graph += kept_plan_bytes(mine, way.strategy)
    kept_sums = step.whole and model.sums_input and way.boundary > 0  # with 0 they are those of parts, made anew
    computing = held_step_bytes(model, mine, kept_sums=kept_sums)
    sources = own if model.sums_input else rows  # sums read others' rows where they came
    evaluation = pass_bytes(model, LayerSize(sources, own, edges), kept_sums=model.sums_input)
    width = max(
        columns_sent(layer, size, first=index == 0)
        for index, (layer, size) in enumerate(zip(model.layers, step.layers, strict=True))
    )
    heard = mirrors * (1.0 if step.whole else min(1.0, mine.layers[0].mirrors / max(mirrors, 1)))
    messages = FLOAT * max(6 * heard * width, 2 * mirrors * (facts.features if model.sums_input else 0))
    return Memory(
        BASE_BYTES + WORKER_BYTES,
        graph,
        features,
        _REDUCING * weight_bytes(model),
        0.0 if step.whole else batch_bytes(facts, model, mine),
        messages * (way.boundary if step.whole else 1.0),
        computing,
        evaluation,
        loading,
        int(grouping) if grouping > _GROUPING_BYTES else None,
    )


def _data(facts: GraphFacts, model: ForecastModel, way: Way, step: StepSize, cut: Cut, together: bool) -> Memory:
    """Batches of one's own; evaluation is the hybrid engine's. Rows of all parts on a machine are mapped, and read in place."""
    everything = StepSize((LayerSize(facts.nodes, facts.nodes, facts.edges),) * len(model.layers), facts.train, 1, whole=True)
    held = _hybrid(facts, model, way, everything, cut)
    mapped = 1.0 if together else 1 / way.workers
    pages = mapped * (FLOAT * facts.nodes * facts.features + 12 * facts.edges + 8 * facts.nodes)
    batch = batch_bytes(facts, model, step)
    return Memory(
        held.base,
        held.graph + pages + 16 * facts.train,
        held.features,
        held.weights,
        min(_PIPELINE * batch, _PIPELINE_BYTES + 2 * batch),
        held.messages,
        held_step_bytes(model, step, kept_sums=False),
        held.evaluation,
        held.loading,
    )


def _in_turn(facts: GraphFacts, model: ForecastModel, way: Way, step: StepSize, cut: Cut, limit: int) -> Memory:
    """One part at a time, with its halo: a budget for the whole run says how many parts are kept (train/averaging/setup.py)."""
    rows, turns = cut.nodes + cut.halo, -(-way.parts // way.workers)
    lists = 4 * cut.edges + 64 * rows + edge_table_bytes(facts, model, cut.edges)
    part = lists + FLOAT * rows * facts.features
    weights = weight_bytes(model) + FLOAT * AVERAGED * model.weights * turns  # what parts have learnt waits to be averaged
    layers = tuple(
        LayerSize(min(size.sources, rows), min(size.destinations, rows), min(size.edges, cut.edges)) for size in step.layers
    )
    mine = StepSize(layers, min(step.targets, cut.nodes), step.steps, step.whole)
    batches = 0.0 if step.whole else batch_bytes(facts, model, mine)
    base, graph = BASE_BYTES + WORKER_BYTES, 16.0 * facts.nodes / way.workers  # masks, and places of nodes
    room = max((limit - base) / MARGIN - graph - weights - batches, 2 * lists, _LEAST_ROOM)
    kept = max(lists, min(part * turns, room / 2))
    computing = step_bytes(model, mine, kept_sums=False)  # freed arrays are given back after every part
    evaluation = min(room / 2, FLOAT * facts.nodes * (facts.features + 4 * model.widest))
    budget = (TRAINING_PROGRAM_BYTES + int(room)) * way.workers
    return Memory(base, graph, kept, weights, batches, 0.0, computing, evaluation, kept, budget)


def _own_tables(facts: GraphFacts, model: ForecastModel, cut: Cut) -> float:
    return label_bytes(facts) * cut.nodes / max(facts.nodes, 1) + edge_table_bytes(facts, model, cut.edges)
