"""The one table of strategies: it drives ``--strategy``, ``--help``, the docs and the contract test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from pydantic import ValidationError

from starling.core.errors import InputError, nearest
from starling.core.user_class import ClassPlace
from starling.plan.cluster import Cluster
from starling.plan.cohesive.strategy import Cohesive
from starling.plan.mini import Mini
from starling.plan.saint.strategy import Saint
from starling.plan.source import NeighbourSource
from starling.plan.strategy import PlanTask, Strategy
from starling.plan.whole import Global

STRATEGIES: dict[str, type[Strategy]] = {strategy.name: strategy for strategy in (Global, Mini, Cluster, Cohesive, Saint)}


def find_strategy(name: str) -> type[Strategy]:
    """The class of a strategy by its name, or a user's own by its place: ``mine.py:MyStrategy``."""
    if name in STRATEGIES:
        return STRATEGIES[name]
    if place := ClassPlace.parse(name):
        return place.load(Strategy, "strategy")  # type: ignore[type-abstract]
    raise InputError(f"There is no strategy '{name}'. {nearest(name, STRATEGIES)}")


def read_settings(name: str, settings: Mapping[str, object] | None = None) -> Strategy.Settings:
    """The settings of a strategy, checked before any graph is opened; text is read as what the setting is."""
    known = find_strategy(name).Settings
    try:
        return known.model_validate(dict(settings or {}))
    except ValidationError as error:
        first = error.errors()[0]
        setting = str(first["loc"][0]) if first["loc"] else ""
        if first["type"] == "extra_forbidden":
            hint = nearest(setting, known.model_fields) if known.model_fields else "It has no settings."
            raise InputError(f"The strategy {name} has no setting '{setting}'. {hint}") from error
        reason = first["msg"].removeprefix("Value error, ")
        raise InputError(f"The setting '{setting}' of {name} is wrong: {reason}; got {first['input']!r}.") from error


def make_strategy(
    name: str,
    settings: Mapping[str, object] | Strategy.Settings | None,
    graph: NeighbourSource,
    train_rows: NDArray[Any],
    layers: int,
    seed: int = 0,
    threads: int | None = None,
    *,
    clusters: NDArray[Any] | None = None,
) -> Strategy:
    """A strategy ready to plan epochs; `clusters` [rows] says which cluster each row is in, for those that need it."""
    strategy = find_strategy(name)
    if not isinstance(settings, Strategy.Settings):
        settings = read_settings(name, settings)
    return strategy(settings, PlanTask(graph, train_rows, layers, seed, threads, clusters))
