"""How much memory a worker needs: a list of what it holds, each with its reason, and the largest of three peaks.

    loading      neighbour lists are made beside the edges they come from
    a step       activations and gradients (activations.py), batches that wait in the background
    evaluation   one pass over all nodes, or blocks of them within --memory

What formulas leave out (allocator, threads, Python) is a measured base and a margin on top, so that a plan that is said to fit does
(bench/forecast.py). Here are the pieces; process_memory.py and team_memory.py put them together.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from starling.kernels.cohesive_moves import state_bytes
from starling.partition.metis import Metis
from starling.plan.cohesive.kept import KEPT_BYTES, kept_bytes
from starling.plan.forecast.activations import FLOAT, turned_bytes
from starling.plan.forecast.cut import Cut
from starling.plan.forecast.facts import GraphFacts
from starling.plan.forecast.model import ForecastModel
from starling.plan.forecast.sizes import StepSize
from starling.plan.forecast.traffic import mirrored_rows
from starling.plan.model_work import LayerSize

BASE_BYTES = 570 << 20
"""A process that has trained a tiny graph: interpreter, torch, compiled kernels."""
WORKER_BYTES = 20 << 20
"""What a member of a team holds beyond that: its links, threads and agent."""
MARGIN = 1.12
"""What the formulas' peaks are multiplied by, base left out: holes between arrays."""
_WAITING_BATCHES = 3
"""One that is computed, one that waits, one that is being made."""


@dataclass(frozen=True)
class Memory:
    """Bytes of a worker by what they are for; `total` is its peak."""

    base: float
    graph: float
    features: float
    weights: float
    batches: float
    messages: float
    step: float
    evaluation: float
    loading: float
    budget: int | None = None
    """What to pass as --memory so that features and evaluation keep to this; None: nothing need be passed."""

    @property
    def total(self) -> int:
        """The predicted peak, on the safe side."""
        held = self.graph + self.features + self.weights + self.messages + self.batches
        return int(self.base + MARGIN * max(self.loading, held + self.step, held + self.evaluation))

    def to_json(self) -> dict[str, int]:
        """By name, in bytes."""
        return {name: int(value) for name, value in asdict(self).items() if name != "budget"}


def label_bytes(facts: GraphFacts) -> float:
    """Labels, masks while they are read, and the nodes of each split."""
    return facts.label_bytes * facts.nodes + 8 * facts.evaluated + 4 * facts.nodes


def edge_table_bytes(facts: GraphFacts, model: ForecastModel, edges: float) -> float:
    """Values of edges that the model reads."""
    if model.name == "gate":
        return FLOAT * edges * facts.edge_features
    by_relation = {"rgcn": 24, "rgat": 44}  # types, edges by relation; of rgat also edges between pairs
    return by_relation.get(model.name, 0) * edges


def weight_bytes(model: ForecastModel) -> float:
    """Weights, gradients, Adam's two moments, the best so far and one on its way to disk."""
    return FLOAT * model.weights * 6


def batch_bytes(facts: GraphFacts, model: ForecastModel, step: StepSize) -> float:
    """Batches that are made and wait: features, lists and places of rows; and the edges of the one that is computed, turned."""
    filled = FLOAT * step.inputs * facts.features
    for size in step.layers:
        filled += 12 * size.edges + 8 * size.destinations + 24 * size.sources + edge_table_bytes(facts, model, size.edges)
    return _WAITING_BATCHES * filled + sum(turned_bytes(model, size) for size in step.layers)


def kept_plan_bytes(step: StepSize, strategy: str) -> float:
    """Plans of cohesive batches, which come again every epoch."""
    one = sum(kept_bytes(size.edges, size.sources) for size in step.layers)
    return min(KEPT_BYTES, step.steps * one) if strategy == "cohesive" else 0.0


def counting_bytes(facts: GraphFacts, strategy: str) -> float:
    """In how many sub-graphs `saint` has seen each node and each edge, and which nodes are in the one at hand."""
    return 4.0 * facts.edges + 16.0 * facts.nodes if strategy == "saint" else 0.0


def grouping_bytes(facts: GraphFacts, strategy: str, step: StepSize) -> float:
    """What it takes to find the groups of a strategy that has such: METIS, as its method reckons, or batches' counts and costs."""
    if strategy not in ("cluster", "cohesive"):
        return 0.0
    found = Metis.bytes_per_node * facts.nodes + Metis.bytes_per_entry * facts.edges * (2 if facts.directed else 1)
    if strategy == "cluster":
        return float(found)
    counts = state_bytes(step.steps, len(step.layers), facts.nodes)  # refused above --memory (plan/cohesive/refine.py)
    return float(max(found, counts) + 24 * facts.edges + 64 * facts.nodes)


def share_of(step: StepSize, facts: GraphFacts, cut: Cut) -> StepSize:
    """One worker's rows and edges of a step that all compute together; that of the largest, if `cut` is of the largest."""
    nodes, edges = cut.nodes / max(facts.nodes, 1), cut.edges / max(facts.edges, 1)
    layers = []
    for size in step.layers:
        mirrors = mirrored_rows(size, cut, whole=step.whole) / cut.shares
        mirrors = max(mirrors, cut.halo) if step.whole else mirrors
        layers.append(LayerSize(size.sources * nodes + mirrors, size.destinations * nodes, size.edges * edges, mirrors))
    return StepSize(tuple(layers), step.targets * nodes, step.steps, step.whole)
