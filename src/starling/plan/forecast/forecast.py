"""From a graph in numbers to a table of plans: each with its memory, traffic and time, and the one to take.

forecast(facts, model, asked, means) → Forecast
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starling.core.memory import format_bytes
from starling.plan.forecast.candidates import Asked, Offer, candidates
from starling.plan.forecast.cut import Likelihood, thinned
from starling.plan.forecast.facts import GraphFacts
from starling.plan.forecast.memory import Memory
from starling.plan.forecast.model import ForecastModel
from starling.plan.forecast.seconds import Cluster, epoch_seconds
from starling.plan.forecast.sizes import Sizes
from starling.plan.forecast.team_memory import worker_memory
from starling.plan.forecast.traffic import traffic
from starling.plan.forecast.ways import Way

_SHOWN_TURNS = 2
"""Out-of-core plans that do not fit are shown up to this many, then the first that fits."""


@dataclass(frozen=True)
class Plan:
    """One way to train with what it takes; `why` says in a few words why it does not fit."""

    way: Way
    memory: Memory
    bytes_per_epoch: int
    seconds_per_epoch: float
    waiting_share: float
    steps_per_epoch: int
    fits: bool
    why: str

    @property
    def memory_bytes(self) -> int:
        """Peak of the largest worker."""
        return self.memory.total

    def to_json(self) -> dict[str, Any]:
        """With the keys of docs/forecast.md."""
        way = self.way
        return {
            "strategy": way.strategy,
            "parallel": way.parallel,
            "sync": way.sync,
            "parts": way.parts,
            "workers": way.workers,
            "boundary": way.boundary,
            "batch_size": way.batch_size,
            "fanouts": None if way.fanouts is None else list(way.fanouts),
            "steps_per_epoch": self.steps_per_epoch,
            "memory_bytes": self.memory_bytes,
            "memory": self.memory.to_json(),
            "bytes_per_epoch": self.bytes_per_epoch,
            "seconds_per_epoch": self.seconds_per_epoch,
            "waiting_share": round(self.waiting_share, 4),
            "exact": way.exact,
            "fits": self.fits,
            "why": self.why,
        }


@dataclass(frozen=True)
class Means:
    """How numbers are come by: the cut into so many shares, sizes of a way's steps, its machines, its workers' memory."""

    cut: Callable[[int], Likelihood]
    sizes: Callable[[Way], Sizes]
    cluster: Callable[[Way], Cluster]
    limit: Callable[[Way], int]
    together: bool = True
    """All workers are on one machine."""


@dataclass(frozen=True)
class Forecast:
    """All plans; `recommended` is a place in `plans`, None where nothing fits."""

    plans: tuple[Plan, ...]
    recommended: int | None

    @property
    def best(self) -> Plan | None:
        """The recommended plan."""
        return None if self.recommended is None else self.plans[self.recommended]


def needed(facts: GraphFacts, model: ForecastModel, way: Way, means: Means) -> Memory:
    """Memory of the largest worker alone, which is quick."""
    cut = means.cut(way.parts if way.in_turn else way.workers)
    return worker_memory(facts, model, way, means.sizes(way).safe, cut.safe, means.limit(way), together=means.together)


def make_plan(facts: GraphFacts, model: ForecastModel, way: Way, means: Means) -> Plan:
    """Predict one way to train."""
    sizes = means.sizes(way)
    shares = way.parts if way.in_turn else way.workers
    cut, limit = means.cut(shares), means.limit(way)
    memory = needed(facts, model, way, means)
    sent = traffic(facts, model, way, sizes.likely, cut.likely, together=means.together)
    seen = thinned(cut.likely, way.boundary)
    time = epoch_seconds(facts, model, way, sizes.likely, seen, sent, means.cluster(way))
    fits = memory.total <= limit
    why = "" if fits else _reason(memory, memory.total - limit)
    steps = sizes.likely.steps
    return Plan(way, memory, sent.epoch_bytes, time.seconds, time.waiting_share, steps, fits, why)


def forecast(facts: GraphFacts, model: ForecastModel, asked: Asked, offer: Offer, means: Means) -> Forecast:
    """Predict every way to train, and choose."""
    asked.check(offer, facts)
    plans: list[Plan] = []
    turned = 0
    for way in candidates(asked, facts, offer, len(model.layers)):
        if way.in_turn and turned >= _SHOWN_TURNS and any(plan.fits and plan.way.in_turn for plan in plans):
            continue
        plan = make_plan(facts, model, way, means)
        if way.in_turn:
            if turned >= _SHOWN_TURNS and not plan.fits:
                continue
            turned += 1
        plans.append(plan)
    return Forecast(tuple(plans), recommend(plans))


def recommend(plans: list[Plan]) -> int | None:
    """Of the plans that fit, the exact one with the shortest epoch; approximations only where nothing exact fits."""
    fitting = [place for place, plan in enumerate(plans) if plan.fits]
    exact = [place for place in fitting if plans[place].way.exact]
    return min(exact or fitting, key=lambda place: plans[place].seconds_per_epoch, default=None)


def _reason(memory: Memory, missing: int) -> str:
    """What takes the most when the most is taken, in words."""
    held = {
        "the graph": memory.graph,
        "features": memory.features,
        "batches that wait": memory.batches,
        "messages": memory.messages,
    }
    moments = {
        "making neighbour lists": {"making neighbour lists": memory.loading},
        "a step": {**held, "activations and gradients": memory.step},
        "evaluation": {**held, "evaluation": memory.evaluation},
    }
    most = max(moments.values(), key=lambda parts: sum(parts.values()))
    parts = {**most, "Python with torch": memory.base}
    name = max(parts, key=lambda part: parts[part])
    return f"{format_bytes(missing)} too much: {format_bytes(parts[name])} for {name}"
