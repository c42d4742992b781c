"""Features of node types that differ in width, as rows of one: a type's own columns, zeros, and in the last column the type's code.

The code travels with the row, so that whoever gets the row (in a batch, from another worker, out of a block of inference) can apply
the type's own matrix (`nn/typed_input.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.manifest import GraphManifest
from starling.engine.features import (
    Features,
    NoFeatures,
    Normalize,
    SpreadFeatures,
    Total,
    in_memory,
    normalized,
    open_features,
)
from starling.store.graph import CsrTable
from starling.store.parts import Shard
from starling.store.parts_manifest import PartsManifest
from starling.store.policies import rows_in_type


class TypedFeatures(Features):
    """Node i is of type `codes[i]`; its features are row `place[i]` of the type's table, None for a type without features.

    `room` is how many columns there are before the code, at least those of the widest type; None: as many.
    """

    def __init__(
        self, codes: NDArray[Any], place: NDArray[Any], tables: Sequence[Features | None], room: int | None = None
    ) -> None:
        self.codes, self.tables, self.place = codes, tuple(tables), place
        self.type_widths = tuple(0 if table is None else table.width for table in self.tables)
        self.count, self.width = len(codes), max(*self.type_widths, room or 0) + 1

    @property
    def bare(self) -> NDArray[np.int64]:
        """The nodes of types without features."""
        return np.flatnonzero(np.isin(self.codes, [code for code, table in enumerate(self.tables) if table is None]))

    def widened(self, room: int) -> TypedFeatures:
        """The same with room for `room` columns."""
        return TypedFeatures(self.codes, self.place, self.tables, room)

    def in_memory(self) -> TypedFeatures:
        """The same, each type's features read once and kept."""
        kept: dict[int, Features] = {}
        for table in self.tables:
            if table is not None and id(table) not in kept:  # one table may be that of every type
                kept[id(table)] = in_memory(table)
        tables = [None if table is None else kept[id(table)] for table in self.tables]
        return TypedFeatures(self.codes, self.place, tables, self.width - 1)

    def scaled(self, how: Normalize, training: NDArray[Any], total: Total) -> TypedFeatures:
        """Each type's features scaled by themselves; columns by the training nodes of the type, or all of it where it has none."""
        if how == "none":
            return self
        tables: list[Features | None] = []
        for code, table in enumerate(self.tables):
            mine = training[self.codes[training] == code]
            if total(np.array([float(len(mine))]))[0] == 0:
                mine = np.flatnonzero(self.codes == code)
            tables.append(None if table is None else normalized(table, how, self.place[mine], total))
        return TypedFeatures(self.codes, self.place, tables, self.width - 1)

    def _rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        out = np.zeros((len(index), self.width), np.float32)
        codes = self.codes[index]
        out[:, -1] = codes
        for code, table in enumerate(self.tables):
            mine = np.flatnonzero(codes == code)
            if table is not None and len(mine):
                out[mine, : table.width] = table.rows(self.place[index[mine]])
        return out


def rank_in_type(codes: NDArray[Any], types: int) -> NDArray[np.int64]:
    """Each node's number among the nodes of its type, in order."""
    rank = np.empty(len(codes), np.int64)
    for code in range(types):
        mine = np.flatnonzero(codes == code)
        rank[mine] = np.arange(len(mine))
    return rank


def node_features(
    manifest: GraphManifest | PartsManifest,
    table: Callable[[str], NDArray[Any] | CsrTable],
    count: int,
    by_type: bool,
    place: Callable[[], NDArray[Any]] | None = None,
) -> Features:
    """The features in a graph's or a shard's tables: `x`, those of each type (`x@paper`), or none.

    `place` are rows in the tables of a node's own type, by default numbers among nodes of the type. With `by_type` rows of one `x`
    are marked with their type too.
    """
    types, tables = manifest.node_types, manifest.node_tables
    own = [f"x@{name}" if f"x@{name}" in tables else None for name in types]
    if any(own):
        codes = np.asarray(table("type"))
        rows = rank_in_type(codes, len(types)) if place is None else np.asarray(place(), np.int64)
        return TypedFeatures(codes, rows, [None if name is None else open_features(table(name)) for name in own])
    if "x" not in tables:
        if by_type:
            raise InputError(
                "Inputs by type need features, and the graph has none. Leave by_type out: all nodes get embeddings."
            )
        return NoFeatures(count)
    features = open_features(table("x"))
    if not by_type:
        return features
    if not types or "type" not in tables:
        raise InputError(
            "Inputs by type need named node types, and the graph has none. Leave by_type out, or import it with types."
        )
    return TypedFeatures(np.asarray(table("type")), np.arange(count), [features] * len(types))


def shard_features(shard: Shard, by_type: bool) -> Features:
    """The features of a shard's owned nodes."""
    return node_features(shard.parts, shard.node_table, shard.owned, by_type, lambda: rows_in_type(shard.record))


def joined_features(shards: Sequence[Features], order: NDArray[Any] | None = None) -> Features:
    """Features of shards laid end to end; with `order`, node i is row `order[i]` of them."""
    typed = [shard for shard in shards if isinstance(shard, TypedFeatures)]
    if len(typed) < len(shards):
        return shards[0] if len(shards) == 1 and order is None else SpreadFeatures(shards, order)
    codes, tables = np.concatenate([shard.codes for shard in typed]), []
    rows = zip(typed, _rows_before(typed), strict=True)
    place = np.concatenate([shard.place + before[shard.codes] for shard, before in rows])
    made: dict[tuple[int, ...], Features] = {}  # one table may be that of every type
    for code in range(len(typed[0].tables)):
        parts = [table for shard in typed if (table := shard.tables[code]) is not None]
        key = tuple(map(id, parts))
        if parts and key not in made:
            made[key] = joined_features(parts)
        tables.append(made.get(key))
    if order is not None:
        codes, place = codes[order], place[order]
    return TypedFeatures(codes, place, tables)


def _rows_before(shards: Sequence[TypedFeatures]) -> NDArray[np.int64]:
    """Rows of each type's table that earlier shards have [shards, types]."""
    counts = [[0 if table is None else table.count for table in shard.tables] for shard in shards]
    return np.cumsum([[0] * len(counts[0]), *counts[:-1]], axis=0)
