"""Clusters that are not here: the same way to train by 1, 2, 4 … workers, each simulated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from starling.plan.forecast.facts import GraphFacts
from starling.plan.forecast.forecast import Means, Plan, make_plan
from starling.plan.forecast.model import ForecastModel
from starling.plan.forecast.ways import Way


@dataclass(frozen=True)
class Point:
    """One number of workers; `efficiency` is against the fewest workers that fit."""

    workers: int
    plan: Plan
    speedup: float
    efficiency: float

    def to_json(self) -> dict[str, Any]:
        """With the keys of docs/forecast.md."""
        plan = self.plan
        return {
            "workers": self.workers,
            "seconds_per_epoch": plan.seconds_per_epoch,
            "speedup": round(self.speedup, 4),
            "efficiency": round(self.efficiency, 4),
            "waiting_share": round(plan.waiting_share, 4),
            "memory_bytes": plan.memory_bytes,
            "bytes_per_epoch": plan.bytes_per_epoch,
            "fits": plan.fits,
        }


def worker_counts(most: int) -> list[int]:
    """1, 2, 4 … and the number asked for."""
    counts = [1]
    while counts[-1] * 2 <= most:
        counts.append(counts[-1] * 2)
    return counts if counts[-1] == most else [*counts, most]


def scaled_plans(facts: GraphFacts, model: ForecastModel, way: Way, means: Means, counts: list[int]) -> list[Point]:
    """The way with every number of workers, one part each."""
    plans = [make_plan(facts, model, replace(way, workers=count, parts=count), means) for count in counts]
    base = next((place for place, plan in enumerate(plans) if plan.fits), 0)
    points = []
    for count, plan in zip(counts, plans, strict=True):
        speedup = plans[base].seconds_per_epoch / plan.seconds_per_epoch if plan.seconds_per_epoch else 0.0
        points.append(Point(count, plan, speedup, speedup * counts[base] / count))
    return points
