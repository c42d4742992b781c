"""Embeddings of a run that averages models: every part learns the rows of its own nodes, in a table of its worker."""

from __future__ import annotations

from dataclasses import replace

from starling.core.errors import InputError
from starling.core.memory import format_bytes
from starling.engine.data.part_embeddings import EmbeddedPartFeatures, embedded
from starling.engine.data.parts_source import PartsSource
from starling.engine.embeddings.table import EmbeddingTable, TableSpec
from starling.engine.typed_features import TypedFeatures
from starling.train.budget import data_memory
from starling.train.config import RunConfig
from starling.train.embeddings import learnt_width

_TABLE_SHARE = 4
"""One part in so many of a worker's data may be rows and their optimiser's state, unless --embedding-memory says otherwise."""
_MOST = 2
"""One part in so many at most, where memory is bounded: the rest is for parts and evaluation."""


def with_part_embeddings(source: PartsSource, config: RunConfig) -> PartsSource:
    """The same parts with learnt rows beside their features, or in their place where there are none."""
    settings, features = config.embedding, source.features
    bare = len(features.bare) if isinstance(features, TypedFeatures) else 0
    dim = learnt_width(settings, features, bare, source.path)
    if dim == 0:
        return source
    room = data_memory(config, source.team.size)
    spec = TableSpec(dim, settings.optimizer, config.run.seed, settings.memory or room // _TABLE_SHARE)
    found = embedded(source.part_features, source.mine, spec)
    if config.run.memory is not None and found.table.held_bytes > room // _MOST:
        raise InputError(
            f"--memory leaves each worker {format_bytes(room)} beside the program, at most half of it for --embedding-memory, got "
            f"{format_bytes(found.table.held_bytes)} of rows. Pass a larger --memory, or a smaller --embedding-memory."
        )
    return replace(source, part_features=found)


def table_of_parts(source: PartsSource) -> EmbeddingTable | None:
    """The table of this worker's parts, if rows are learnt."""
    features = source.part_features
    return features.table if isinstance(features, EmbeddedPartFeatures) else None
