"""When a team puts the neighbour lists of a vertex-cut together, which lie in pieces: where something needs whole ones."""

from __future__ import annotations

import logging

from torch import nn

from starling.engine.hybrid.share.source import WorkerSource
from starling.engine.hybrid.share.whole_lists import with_whole_lists
from starling.plan.mini import Mini
from starling.plan.strategy import Strategy
from starling.train.config import RunConfig


def with_lists_it_needs(source: WorkerSource, config: RunConfig, how: Strategy.Settings, model: nn.Module) -> WorkerSource:
    """The share as a run of this model and strategy reads it."""
    return gathered_for(source, _asking(config, how, model))


def gathered_for(source: WorkerSource, asking: str | None) -> WorkerSource:
    """The share with whole lists, if something is `asking` for them and they are in pieces; the first worker says so."""
    if asking is None or not source.graph.spread:
        return source
    if source.team.rank == 0:
        logging.getLogger(__name__).warning(
            "starling: %s is a vertex-cut, whose neighbour lists lie in pieces, and %s whole ones: edges go to the owners of their "
            "destinations first, and the run is that of an edge-cut.",
            source.path,
            asking,
        )
    return with_whole_lists(source)


def _asking(config: RunConfig, how: Strategy.Settings, model: nn.Module) -> str | None:
    """What needs whole lists, with its verb; None if nothing does."""
    if isinstance(how, Mini.Settings) and how.samples:
        return "fan-outs need"
    if config.team.boundary < 1:
        return "--boundary needs"
    if config.team.balance_workers:
        return "--balance-workers needs"
    layers = (type(each).__name__ for each in model.modules() if getattr(each, "whole_lists", False))
    return next((f"{layer} of the model {config.model.name} needs" for layer in layers), None)
