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
    batches: int | None = None
    """cohesive: how many."""
    boundary: float | None = None
    sync: str | None = None
    balance_workers: bool = False
    """cohesive, hybrid: batches are shared out by cost."""

    @property
    def words(self) -> str:
        """The flags that narrow the choice, as a user types them."""
        flags = {
            "--strategy": self.strategy,
            "--parallel": self.parallel,
            "--batches": self.batches,
            "--boundary": self.boundary,
            "--sync": self.sync,
        }
        words = [f"{flag} {value}" for flag, value in flags.items() if value is not None]
        return " ".join(words + ["--balance-workers"] * self.balance_workers)

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
        if self.strategy not in (None, "mini") and (self.fanouts is not None or self.batch_size is not None):
            flag = "--batch-size" if self.fanouts is None else "--fanouts"
            raise InputError(f"{flag} is for the strategy mini, got --strategy {self.strategy}. Leave one of them out.")
        if self.parallel == "data" and self.strategy not in (None, "mini"):
            raise InputError(
                f"Workers of --parallel data compute mini-batches of their own, got the strategy {self.strategy}. Leave one out."
            )
        if self.batches is not None and self.strategy not in (None, "cohesive"):
            raise InputError(f"--batches is for the strategy cohesive, got --strategy {self.strategy}. Leave one of them out.")
        if self.batches is not None and self.batches > facts.train:
            raise InputError(
                f"Expected at most {facts.train:,} batches, a training node in each, got {self.batches:,}. Lower --batches."
            )
        if self.sync == "stale":
            raise InputError("There is no forecast for --sync stale. Forecast gradient or average, or choose a plan yourself.")
        if self.workers > facts.nodes:
            raise InputError(f"Expected at most as many workers as the {facts.nodes:,} nodes, got {self.workers:,}.")


def candidates(asked: Asked, facts: GraphFacts, offer: Offer, layers: int) -> list[Way]:
    """All ways, those of one process first."""
    fanouts = one_a_layer(asked.fanouts or (DEFAULT_FANOUT,) * layers, layers)
    batches = asked.batches or max(min(2, facts.train), round(facts.train / (asked.batch_size or _TARGETS_A_BATCH)))
    mini = Way("mini", "hybrid", "gradient", 1, 1, batch_size=asked.batch_size, fanouts=fanouts)
    steps = [Way("global", "hybrid", "gradient", 1, 1), mini, Way("cluster", "hybrid", "gradient", 1, 1)]
    if "cohesive" in offer.strategies and (batches > 1 or asked.batches):  # a single node has nothing to share with others
        steps.append(Way("cohesive", "hybrid", "gradient", 1, 1, batches=batches))
    ways = list(steps)
    if "saint" in offer.strategies:
        ways.append(Way("saint", "hybrid", "gradient", 1, 1))  # draws from a whole graph, so in one process only
    workers, parts = asked.workers, asked.parts or asked.workers
    if workers > 1:
        ways += [replace(way, workers=workers, parts=parts) for way in steps]
        thinned = steps if asked.boundary is not None else steps[:1]
        boundary = SOME_BOUNDARY if asked.boundary is None else asked.boundary
        ways += [replace(way, workers=workers, parts=parts, boundary=boundary) for way in thinned if boundary < 1]
        if "data" in offer.parallel:
            ways.append(replace(mini, workers=workers, parts=parts, parallel="data"))
    if "average" in offer.sync and "data" in offer.parallel:
        counts = [asked.parts] if asked.parts else [workers * turns for turns in TURNS]
        turned = replace(mini, parallel="data", sync="average", workers=workers)
        ways += [replace(turned, parts=count) for count in counts if workers < count <= facts.nodes]
    return [way for way in ways if _wanted(way, asked)]


def _wanted(way: Way, asked: Asked) -> bool:
    if asked.strategy not in (None, way.strategy) or asked.sync not in (None, way.sync):
        return False
    if asked.batches is not None and way.strategy != "cohesive":
        return False
    if asked.boundary is not None and way.boundary != asked.boundary:
        return False
    if asked.balance_workers and (way.strategy != "cohesive" or way.workers == 1 or way.boundary < 1):
        return False
    return asked.parallel is None or way.alone or way.parallel == asked.parallel
