"""How large a step is: rows and edges of each layer, for every strategy, before a graph is touched.

Where a graph is given and fits, `drawn_sizes` makes a few real batches instead of reckoning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from starling.plan.expected_sizes import expected_sizes, whole_sizes
from starling.plan.fanouts import Fanout
from starling.plan.find_clusters import NODES_A_CLUSTER
from starling.plan.forecast.facts import GraphFacts
from starling.plan.model_work import LayerSize
from starling.plan.saint.strategy import WALK_LENGTH, Saint
from starling.plan.targets import DEFAULT_BATCH

if TYPE_CHECKING:
    from starling.plan.batch import BatchPlan
    from starling.plan.source import NeighbourSource

TRIAL_BATCHES = 4
_SAFE_BATCH, _SAFE_CLUSTER = 1.1, 3.0
"""How much larger than expected, or than the largest of a few drawn ones, a batch or a cluster may be."""
_INSIDE_CLUSTER = 0.7
"""Share of the edges of a cluster's nodes that stay in it."""


@dataclass(frozen=True)
class StepSize:
    """The layers of a step, outermost first, its targets, and how many such steps an epoch has."""

    layers: tuple[LayerSize, ...]
    targets: float
    steps: int
    whole: bool = False
    """Every layer is the whole graph."""

    @property
    def inputs(self) -> float:
        """Nodes whose features a step reads."""
        return self.layers[0].sources

    def times(self, factor: float) -> StepSize:
        """Larger layers, as many steps."""
        return replace(self, layers=tuple(scaled(layer, factor) for layer in self.layers), targets=self.targets * factor)


@dataclass(frozen=True)
class Sizes:
    """A step as it is expected, for time and traffic, and one that will not be exceeded, for memory."""

    likely: StepSize
    safe: StepSize


def scaled(size: LayerSize, factor: float) -> LayerSize:
    """Rows and edges, all times a factor."""
    return LayerSize(size.sources * factor, size.destinations * factor, size.edges * factor, size.mirrors * factor)


def global_sizes(facts: GraphFacts, layers: int) -> Sizes:
    """All nodes and edges in one step."""
    step = StepSize(whole_sizes(facts.nodes, facts.edges, layers), facts.train, 1, whole=True)
    return Sizes(step, step)


def mini_sizes(facts: GraphFacts, fanouts: Sequence[Fanout], batch_size: int | None) -> Sizes:
    """Targets and their hops, the targets' own fan-out first."""
    targets = min(batch_size or DEFAULT_BATCH, facts.train)
    layers = expected_sizes(facts.degrees, targets, fanouts)
    step = StepSize(layers, targets, math.ceil(facts.train / targets))
    most = tuple(
        LayerSize(
            min(size.sources * _SAFE_BATCH, facts.nodes),
            min(size.destinations * _SAFE_BATCH, facts.nodes),
            min(size.edges * _SAFE_BATCH, facts.edges),
        )
        for size in layers
    )
    return Sizes(step, replace(step, layers=most))


def cluster_sizes(facts: GraphFacts, layers: int) -> Sizes:
    """One cluster of about 500 nodes a step, with the edges inside it."""
    clusters = max(1, round(facts.nodes / NODES_A_CLUSTER))
    nodes, edges = facts.nodes / clusters, facts.edges / clusters
    steps = min(clusters, facts.train)
    step = StepSize(whole_sizes(nodes, edges * _INSIDE_CLUSTER, layers), facts.train / steps, steps)
    safe = min(_SAFE_CLUSTER, clusters)
    return Sizes(
        step, replace(step, layers=whole_sizes(nodes * safe, edges * safe, layers), targets=min(nodes * safe, facts.train))
    )


def saint_sizes(facts: GraphFacts, layers: int) -> Sizes:
    """The sub-graph of 1,000 walks of two steps, as `saint` draws by default; an epoch covers the nodes once.

    A walk begins anywhere and then goes where edges lead, so a node with d in-edges is met 1,000 / V + 2,000 d / E times on
    average. Beside the edges they take, walks meet by chance; in communities more often, so three times that is on the safe side.
    """
    walks, length, degrees = Saint.Settings.model_validate({}).count, WALK_LENGTH, facts.degrees
    degree = degrees.incoming / max(facts.edges, 1)
    inside = 1 - np.exp(-walks / facts.nodes - walks * length * degree)
    nodes = float(degrees.count @ inside)
    reached = float((degrees.count * degrees.incoming) @ inside)  # ends of edges that are inside
    walked = min(2.0 * walks * length, facts.edges)
    edges = min(facts.edges, walked + reached * reached / max(facts.edges, 1))
    steps = max(1, round(facts.nodes / max(nodes, 1)))
    targets = max(1.0, nodes * facts.train / facts.nodes)
    step = StepSize(whole_sizes(nodes, edges, layers), targets, steps)
    most, taken = min(walks * (1 + length), facts.nodes), min(_SAFE_CLUSTER * edges, facts.edges)
    return Sizes(step, StepSize(whole_sizes(most, taken, layers), min(most, facts.train), steps))


def drawn_sizes(
    source: NeighbourSource,
    train: NDArray[Any],
    layers: int,
    strategy: str,
    settings: Mapping[str, object],
    *,
    seed: int,
) -> Sizes:
    """The mean of a few real batches, and a little more than the largest of them."""
    from starling.plan.registry import make_strategy

    made = make_strategy(strategy, settings, source, train, layers, seed)
    steps = made.steps_per_epoch
    plans = [made.plan(1, step) for step in range(min(TRIAL_BATCHES, steps))]
    numbers = np.array([_numbers(plan) for plan in plans], np.float64)
    targets = np.array([len(plan.targets) for plan in plans], np.float64)
    mean = StepSize(_layers(numbers.mean(0)), float(targets.mean()), steps)
    most = StepSize(_layers(numbers.max(0)), float(targets.max()), steps)
    return Sizes(mean, most if len(plans) == steps else most.times(_SAFE_BATCH))


def _numbers(plan: BatchPlan) -> list[tuple[int, int, int]]:
    return [(block.sources, block.destinations, len(block.neighbours)) for block in plan.blocks]


def _layers(numbers: NDArray[np.float64]) -> tuple[LayerSize, ...]:
    return tuple(LayerSize(*map(float, layer)) for layer in numbers)
