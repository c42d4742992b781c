"""Memory of one process that reads the whole graph (engine/source.py, infer/layerwise.py)."""

from __future__ import annotations

from starling.plan.forecast.activations import FLOAT, pass_bytes, turned_bytes
from starling.plan.forecast.facts import GraphFacts
from starling.plan.forecast.holes import held_step_bytes
from starling.plan.forecast.memory import (
    BASE_BYTES,
    MARGIN,
    Memory,
    batch_bytes,
    counting_bytes,
    edge_table_bytes,
    grouping_bytes,
    kept_plan_bytes,
    label_bytes,
    weight_bytes,
)
from starling.plan.forecast.model import ForecastModel
from starling.plan.forecast.sizes import StepSize
from starling.plan.model_work import LayerSize

_LEAST_BUDGET = 16 << 20
_BUDGET_SHARE = 0.6
"""What a budget of --memory is of the room left: features are kept beside evaluation's tables and blocks, in half as much."""
_SORTING = 22
"""Bytes an edge while lists are made: the edges themselves, and the two-level sort."""


def process_memory(facts: GraphFacts, model: ForecastModel, strategy: str, step: StepSize, limit: int) -> Memory:
    """The peak within `limit`, if that can be: what may be on disk is, as far as needed."""
    grouping = grouping_bytes(facts, strategy, step)
    graph, lists = _graph(facts, model, whole=step.whole)
    graph += counting_bytes(facts, strategy) + kept_plan_bytes(step, strategy)
    features, weights = FLOAT * facts.nodes * facts.features, weight_bytes(model)
    everything = LayerSize(facts.nodes, facts.nodes, facts.edges)
    at_once = pass_bytes(model, everything, kept_sums=model.sums_input)
    # infer/layerwise.py: whether a pass is made at once
    wanted = FLOAT * (facts.nodes * (facts.features + 4 * model.widest) + facts.edges * model.numbers_an_edge)
    loading = lists + _SORTING * facts.edges
    if step.whole:
        sums = features * (len(model.layers) if model.name == "sgc" else 1) if model.sums_input else 0.0
        computing = held_step_bytes(model, step, kept_sums=model.sums_input, exact=True)
        room = (limit - BASE_BYTES) / MARGIN - graph - weights - features - sums - _blocks(0, facts)
        budget = int(max(features, _LEAST_BUDGET, min(room, wanted)))  # below the features `global` is refused
        evaluation = at_once if wanted <= budget else _blocks(budget, facts)
        return Memory(BASE_BYTES, graph, features + sums, weights, 0.0, 0.0, computing, evaluation, loading + features, budget)
    batches, computing = batch_bytes(facts, model, step), held_step_bytes(model, step, kept_sums=False)
    room = (limit - BASE_BYTES) / MARGIN - graph - weights - batches
    budget = int(max(_LEAST_BUDGET, grouping, min(room * _BUDGET_SHARE, 2 * max(features, wanted))))
    here = features if features <= budget // 2 else 0.0
    if wanted <= budget:
        evaluation = at_once + (features if model.sums_input else 0.0) + (features - here)  # sums are kept for the next one
    else:
        evaluation = _blocks(budget, facts)
    loading = max(loading, lists + 8 * facts.edges + grouping) + here
    return Memory(BASE_BYTES, graph, here, weights, batches, 0.0, computing, evaluation, loading, budget)


def _graph(facts: GraphFacts, model: ForecastModel, *, whole: bool) -> tuple[float, float]:
    """Bytes of the graph's lists and tables while it trains, and of the lists alone."""
    nodes, edges = facts.nodes, facts.edges
    number, entry = (4 if nodes <= 1 << 31 else 8), (4 if edges <= 1 << 31 else 8)
    lists = 8 * nodes + (number + entry) * edges
    graph = lists + label_bytes(facts) + edge_table_bytes(facts, model, edges) + 20 * nodes  # maps, degrees, scales
    if whole:
        graph += entry * edges + 8 * nodes + turned_bytes(model, LayerSize(nodes, nodes, edges))
    return graph, lists


def _blocks(budget: int, facts: GraphFacts) -> float:
    """Evaluation in blocks: two tables, the rows of a block and its lists, each within a quarter of the budget."""
    return budget + 4.0 * facts.nodes
