"""From a config to the opened data of a run: the whole graph, or one worker's share of the parts."""

from __future__ import annotations

from starling.comm.team import Team
from starling.engine.hybrid.share.source import WorkerSource, open_worker_source
from starling.engine.source import EDGE_TABLES, GraphSource, SourceRequest, open_source
from starling.train.config import RunConfig
from starling.train.edge_tables import check_stored_edge_tables, edge_tables_of
from starling.train.embeddings import with_embeddings

_FEATURE_SHARE = 2
"""One part in so many of the budget may hold features."""
_WITHOUT_NUMBERS = ("global", "mini", "saint")
"""Strategies that never stream the edges in their imported order."""


def read_source(config: RunConfig, memory: int) -> GraphSource:
    """Open the whole graph."""
    return with_embeddings(open_source(config.data.path, request_of(config, memory)), config.embedding, config.run.seed)


def read_share(config: RunConfig, memory: int, team: Team) -> WorkerSource:
    """Open one worker's share of the parts."""
    source = open_worker_source(config.data.path, team, request_of(config, memory // team.size))
    return with_embeddings(source, config.embedding, config.run.seed)


def request_of(config: RunConfig, memory: int) -> SourceRequest:
    """What this run reads: the edge tables of its model and strategy, which must be there, and features within the budget."""
    name, settings = config.model.name, config.model.settings
    check_stored_edge_tables(config)
    wanted = edge_tables_of(config)
    optional = set(EDGE_TABLES) if ":" in name else set()  # a model we do not know may read any
    if config.task.name == "link":
        optional = optional | {"type"}
    return SourceRequest(
        config.data.normalize,
        wanted,
        tuple(sorted(optional.difference(wanted))),
        memory // _FEATURE_SHARE,
        by_type=bool(settings.get("by_type")),
        times=bool(config.strategy.settings.get("past")),
        before=config.data.before,
        edge_numbers=config.task.name == "link" or config.strategy.name not in _WITHOUT_NUMBERS or "weight" in wanted,
    )
