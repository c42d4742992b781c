"""What would help where nothing fits: more workers, a thinner boundary, parts one after the other."""

from __future__ import annotations

from dataclasses import replace

from starling.core.memory import format_bytes
from starling.plan.forecast.candidates import SOME_BOUNDARY, TURNS, Asked, Offer, candidates
from starling.plan.forecast.cut import assumed_cut
from starling.plan.forecast.facts import GraphFacts
from starling.plan.forecast.forecast import Means, Plan, needed
from starling.plan.forecast.model import ForecastModel
from starling.plan.forecast.ways import Way

_MOST_WORKERS = 4096
_EVEN = 1.05
"""Edges of the largest part over the mean, with `starling partition --balance edges`."""


def nothing_fits(facts: GraphFacts, model: ForecastModel, asked: Asked, offer: Offer, means: Means, least: Plan) -> str:
    """One sentence or two: how much is missing, and what would do."""
    limit = means.limit(least.way)
    assumed = replace(means, cut=lambda shares: assumed_cut(facts, shares))
    found = []
    if workers := fewest_workers(facts, model, asked, offer, assumed):
        found.append(f"--workers {workers}")
    if _fits_balanced(facts, model, asked, offer, means):
        found.append("edges evened out by starling partition --balance edges (--edge-balance 1.05 of a graph in numbers)")
    thin = _smallest_boundary(facts, model, asked, assumed)
    if thin is not None:
        found.append(f"--boundary {thin:g} (boundary sampling) with {asked.workers} workers")
    if (parts := _parts_in_turn(facts, model, asked, offer, assumed)) is not None:
        found.append(f"{parts} parts out of core (--sync average)")
    needed = f"{format_bytes(least.memory_bytes)} a worker (--worker-memory)"
    would = " or ".join([", ".join(found), needed] if found else [needed])
    return (
        f"Nothing fits {format_bytes(limit)} a worker: the least is {least.way.words} with {format_bytes(least.memory_bytes)}. "
        f"What would: {would}."
    )


def fewest_workers(facts: GraphFacts, model: ForecastModel, asked: Asked, offer: Offer, means: Means) -> int | None:
    """The fewest workers, doubling, with which any way fits."""
    workers = max(2, asked.workers * 2)
    while workers <= min(_MOST_WORKERS, facts.nodes):
        ways = candidates(replace(asked, workers=workers, parts=None), facts, offer, len(model.layers))
        if any(_fits(facts, model, way, means) for way in ways if way.workers == workers and not way.in_turn):
            return workers
        workers *= 2
    return None


def _fits_balanced(facts: GraphFacts, model: ForecastModel, asked: Asked, offer: Offer, means: Means) -> bool:
    """Whether as many workers do, on parts with about as many edges each."""
    even = replace(means, cut=lambda shares: assumed_cut(facts, shares, edge_balance=_EVEN))
    ways = candidates(asked, facts, offer, len(model.layers))
    return any(_fits(facts, model, way, even) for way in ways if way.workers > 1 and not way.in_turn)


def _smallest_boundary(facts: GraphFacts, model: ForecastModel, asked: Asked, means: Means) -> float | None:
    if asked.workers < 2:
        return None
    way = Way("global", "hybrid", "gradient", asked.workers, asked.workers, boundary=SOME_BOUNDARY)
    for boundary in (SOME_BOUNDARY, 0.01, 0.0):
        if _fits(facts, model, replace(way, boundary=boundary), means):
            return boundary
    return None


def _parts_in_turn(facts: GraphFacts, model: ForecastModel, asked: Asked, offer: Offer, means: Means) -> int | None:
    if "average" not in offer.sync:
        return None
    for turns in (*TURNS, 128, 256, 1024):
        parts = asked.workers * turns
        ways = [way for way in candidates(replace(asked, parts=parts), facts, offer, len(model.layers)) if way.in_turn]
        if parts <= facts.nodes and any(_fits(facts, model, way, means) for way in ways):
            return parts
    return None


def _fits(facts: GraphFacts, model: ForecastModel, way: Way, means: Means) -> bool:
    return needed(facts, model, way, means).total <= means.limit(way)
