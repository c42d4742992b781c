"""Which ways to train are worth a look, for so many workers and what this Starling can run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from starling.core.errors import InputError, nearest
from starling.plan.fanouts import Fanout, one_a_layer
from starling.plan.forecast.facts import GraphFacts
from starling.plan.forecast.ways import Way

DEFAULT_FANOUT = 10
SOME_BOUNDARY = 0.1
"""Boundary sampling that is offered where all neighbours do not fit; BNS-GCN's own choice."""
TURNS = (2, 4, 8, 16, 32, 64)
"""Parts for each worker to take in turn."""
_TARGETS_A_BATCH = 1024


@dataclass(frozen=True)
class Offer:
    """What this Starling can run: names that `starling train` takes."""

    strategies: frozenset[str]
    parallel: frozenset[str]
    sync: frozenset[str]


@dataclass(frozen=True)
class Asked:
    """What the user wants compared; None: everything that makes sense."""

    workers: int = 1
    strategy: str | None = None
    parallel: str | None = None
    batch_size: int | None = None
    fanouts: tuple[Fanout, ...] | None = None
    parts: int | None = None
    """Of a parts directory that is there already."""

    def check(self, offer: Offer, facts: GraphFacts) -> None:
        """Refuse names that do not exist and numbers that contradict the graph."""
        known = {"global", "mini", "cluster", "cohesive", "saint"} & offer.strategies
        if self.strategy is not None and self.strategy not in known:
            raise InputError(f"There is no forecast for the strategy '{self.strategy}'. {nearest(self.strategy, known)}")
        if self.parts is not None and self.workers > self.parts:
            raise InputError(
                f"Expected at most {self.parts} workers for {self.parts} parts, got {self.workers}. Lower --workers, or "
                "partition again."
            )
        if self.batch_size is not None and self.batch_size > facts.train:
            raise InputError(
                f"Expected a batch of at most the {facts.train:,} training nodes, got {self.batch_size:,}. Lower --batch-size."
            )
        if self.workers > facts.nodes:
            raise InputError(f"Expected at most as many workers as the {facts.nodes:,} nodes, got {self.workers:,}.")


def candidates(asked: Asked, facts: GraphFacts, offer: Offer, layers: int) -> list[Way]:
    """All ways, those of one process first."""
    fanouts = one_a_layer(asked.fanouts or (DEFAULT_FANOUT,) * layers, layers)
    batches = max(1, round(facts.train / (asked.batch_size or _TARGETS_A_BATCH)))
    mini = Way("mini", "hybrid", "gradient", 1, 1, batch_size=asked.batch_size, fanouts=fanouts)
    steps = [Way("global", "hybrid", "gradient", 1, 1), mini, Way("cluster", "hybrid", "gradient", 1, 1)]
    if "cohesive" in offer.strategies and batches > 1:  # one batch has nothing to share with others
        steps.append(Way("cohesive", "hybrid", "gradient", 1, 1, batches=batches))
    ways = list(steps)
    if "saint" in offer.strategies:
        ways.append(Way("saint", "hybrid", "gradient", 1, 1))  # draws from a whole graph, so in one process only
    workers, parts = asked.workers, asked.parts or asked.workers
    if workers > 1:
        ways += [replace(way, workers=workers, parts=parts) for way in steps]
        ways.append(replace(steps[0], workers=workers, parts=parts, boundary=SOME_BOUNDARY))
        if "data" in offer.parallel:
            ways.append(replace(mini, workers=workers, parts=parts, parallel="data"))
    if "average" in offer.sync and "data" in offer.parallel:
        counts = [asked.parts] if asked.parts else [workers * turns for turns in TURNS]
        turned = replace(mini, parallel="data", sync="average", workers=workers)
        ways += [replace(turned, parts=count) for count in counts if workers < count <= facts.nodes]
    return [way for way in ways if _wanted(way, asked)]


def _wanted(way: Way, asked: Asked) -> bool:
    fits_strategy = asked.strategy in (None, way.strategy)
    return fits_strategy and (asked.parallel is None or way.alone or way.parallel == asked.parallel)
