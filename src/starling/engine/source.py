"""A graph as training reads it: neighbour lists and labels in memory, features by row, edge tables beside their edges.

Rows are positions of the imported graph, for a graph directory and for its parts alike: the same run on either gives the same
numbers, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.core.errors import InputError
from starling.core.manifest import GraphManifest, Labels, read_json
from starling.core.times import no_later
from starling.engine.features import Features, Normalize, Total, in_memory, normalized
from starling.engine.node_rows import NodeRows
from starling.engine.typed_features import TypedFeatures, joined_features, node_features, shard_features
from starling.kernels.csr import Csr, csr_from_pairs
from starling.kernels.loops import looped_rows
from starling.nn.graph import LocalGraph, loops_of
from starling.store.graph import CsrTable, open_graph
from starling.store.parts import Parts, open_parts
from starling.store.parts_manifest import PartsManifest
from starling.stream.edges import EdgesInMemory
from starling.stream.id_index import IdIndex

SPLITS = ("train", "val", "test")
EDGE_TABLES = ("weight", "attr", "type")


@dataclass(frozen=True, eq=False)
class GraphSource(NodeRows):
    """Everything a step may read. Edge tables are kept in the order of `incoming`'s entries."""

    path: Path
    incoming: Csr
    features: Features
    labels: Labels | None
    y: NDArray[Any] | None
    splits: dict[str, NDArray[np.int64]]
    edge_tables: dict[str, Tensor]
    relations: int
    directed: bool
    ids: IdIndex
    relation_names: tuple[str, ...] = field(default=(), kw_only=True)
    edge_time: NDArray[Any] | None = field(default=None, kw_only=True)
    node_time: NDArray[Any] | None = field(default=None, kw_only=True)

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return self.incoming.rows

    @property
    def split_sizes(self) -> dict[str, int]:
        """Nodes of each split."""
        return {name: len(self.splits.get(name, ())) for name in SPLITS}

    def total(self, values: NDArray[Any]) -> NDArray[Any]:
        """What is counted here is all there is; a team's workers add up."""
        return values

    def position_of(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Where rows stood in the imported graph: rows of a whole graph are positions."""
        return np.asarray(rows, np.int64)

    def name_of(self, row: int) -> str:
        """The user's id of a node."""
        return str(self.ids.user_ids(row, row + 1)[0])

    def edge_stream(self) -> EdgesInMemory:
        """All edges in imported order, for methods that stream them."""
        place = self.incoming.edge
        if len(place) and int(place.max()) >= len(place):  # numbers of edges that are left out are missing
            place = np.unique(place, return_inverse=True)[1]
        pairs = np.empty((len(place), 2), self.incoming.neighbours.dtype)
        pairs[place, 0] = self.incoming.neighbours
        pairs[place, 1] = np.repeat(np.arange(self.nodes), np.diff(self.incoming.offsets))
        return EdgesInMemory(pairs, self.nodes, directed=self.directed)

    @cached_property
    def degree(self) -> Tensor:
        """In-edges of every node, int64 [V]."""
        return torch.from_numpy(np.diff(self.incoming.offsets))

    @cached_property
    def weighted_degree(self) -> Tensor | None:
        """The sum of in-edges' weights of every node, float32 [V]; None without weights."""
        weight = self.edge_tables.get("weight")
        if weight is None:
            return None
        return torch.segment_reduce(weight.float(), "sum", lengths=self.degree, unsafe=True, initial=0.0)

    @cached_property
    def looped(self) -> Tensor:
        """Whether each node has a self-loop, as `LocalGraph.looped` has it."""
        return loops_of(looped_rows(self.incoming, self.nodes))

    @cached_property
    def whole(self) -> LocalGraph:
        """The whole graph as a layer sees it, made once, so that what kernels prepare for it is made once."""
        return self._local_graph()

    def _local_graph(self, **rows: Tensor) -> LocalGraph:
        """All rows and edges as a layer sees them, with what else is known of the rows."""
        return LocalGraph(
            torch.from_numpy(self.incoming.offsets),
            torch.from_numpy(self.incoming.neighbours.astype(np.int32, copy=False)),
            self.nodes,
            self.nodes,
            weighted_degree=self.weighted_degree,
            looped=self.looped,
            **rows,
            **{f"edge_{name}": table for name, table in self.edge_tables.items()},
        )


@dataclass(frozen=True)
class SourceRequest:
    """What to read: how features are scaled, which edge tables, and how many bytes of features may stay in memory."""

    normalize: Normalize = "none"
    edge_tables: Sequence[str] = ()
    optional_tables: Sequence[str] = ()
    """Edge tables to read where there are such."""
    feature_bytes: int | None = None
    by_type: bool = False
    """Mark each node's features with its type, although all types have the same columns."""
    times: bool = False
    """Read times of edges and nodes."""
    before: float | None = None
    """Leave out edges with a later time, as if they were not there yet."""
    edge_numbers: bool = True
    """Remember where each edge stood in the imported graph, 4 bytes an edge: streams of edges and target edges go by it."""


def prepared(
    features: Features, request: SourceRequest, training: NDArray[Any], total: Total = lambda values: values
) -> Features:
    """Features scaled as asked for, in memory where they fit."""
    if isinstance(features, TypedFeatures):
        features = features.scaled(request.normalize, training, total)
    else:
        features = normalized(features, request.normalize, training, total)
    fits = request.feature_bytes is None or 4 * features.count * features.width <= request.feature_bytes
    if not fits:
        return features
    return features.in_memory() if isinstance(features, TypedFeatures) else in_memory(features)


def node_column(path: Path, name: str) -> NDArray[Any]:
    """A node table of a graph directory or a parts directory, in imported order."""
    return _stored(path).column(name)


def node_table_names(path: Path) -> list[str]:
    """The node tables of a graph directory or a parts directory."""
    return list(_stored(path).manifest.node_tables)


def _stored(path: Path) -> _Stored:
    return _StoredParts(open_parts(path)) if read_json(path).get("format") == "starling-parts" else _StoredGraph(path)


def open_source(path: Path, request: SourceRequest) -> GraphSource:
    """Open a graph directory or a parts directory for training."""
    stored = _stored(path)
    manifest = stored.manifest
    splits = {name: np.flatnonzero(stored.column(name)) for name in SPLITS if name in manifest.node_tables}
    given = stored.features(request.by_type)
    features = prepared(given, request, splits.get("train", np.empty(0, np.int64)))
    pairs, kept = stored.pairs(), edges_kept(stored.edge_table, request)
    incoming = csr_from_pairs(pairs if kept is None else np.asarray(pairs)[kept], manifest.nodes)
    edge = incoming.edge if kept is None else kept[incoming.edge]  # numbers as imported, whatever is left out
    incoming = replace(incoming, edge=edge if request.edge_numbers else edge[:0].copy())
    names = [*request.edge_tables, *(name for name in request.optional_tables if name in manifest.edge_tables)]
    tables = {name: _entries(stored.edge_table(name), edge, name) for name in names}
    y = np.asarray(stored.column("y")) if manifest.labels is not None else None
    relations = len(manifest.edge_types) or (int(tables["type"].max()) + 1 if "type" in tables and len(tables["type"]) else 0)
    return GraphSource(
        path,
        incoming,
        features,
        manifest.labels,
        y,
        splits,
        tables,
        relations,
        manifest.directed or kept is not None,
        stored.ids,
        relation_names=manifest.edge_types,
        edge_time=stored.edge_table("time")[edge] if request.times else None,
        node_time=stored.column("time") if request.times and "time" in manifest.node_tables else None,
    )


def edges_kept(table: Callable[[str], NDArray[Any]], request: SourceRequest) -> NDArray[np.int64] | None:
    """Numbers of the edges that are there at the time asked for, ascending; None for all."""
    return None if request.before is None else np.flatnonzero(no_later(np.asarray(table("time")), request.before))


def read_edge_table(path: Path, name: str) -> NDArray[Any] | None:
    """An edge table as it is stored, in the imported order of edges; None where a graph or parts directory has no such table."""
    kind = read_json(path).get("format")
    stored: _Stored = _StoredParts(open_parts(path)) if kind == "starling-parts" else _StoredGraph(path)
    if name not in stored.manifest.edge_tables:
        return None
    values = stored.edge_table(name)
    if len(values) != stored.manifest.edges:
        raise InputError(
            f"Expected a row for each of {stored.manifest.edges:,} edges in the table '{name}' of {path}, got {len(values):,}. "
            "Import the graph again."
        )
    return values


def _entries(values: NDArray[Any], edge: NDArray[Any], name: str) -> Tensor:
    """An edge table in the order of the neighbour lists."""
    return edge_tensor(np.asarray(values)[edge], name)


def edge_tensor(values: NDArray[Any], name: str) -> Tensor:
    """An edge table as layers read it: types are whole numbers, all else is float32; attributes are a row an edge."""
    table = torch.from_numpy(np.require(values, requirements=("C", "W")))  # torch warns of what it could not write to
    if name == "type":
        return table.long()
    if name != "attr":
        return table.float()
    return table.float()[:, None] if table.ndim == 1 else table.float().flatten(1)


def negative_weights(path: Path) -> InputError:
    """The refusal of weights below zero."""
    return InputError(
        f"Expected edge weights of at least 0 to average by, got negative ones in {path}. Leave edge_weights out, or import signed "
        "numbers as attributes, for gate."
    )


class _StoredGraph:
    """What a graph directory holds."""

    def __init__(self, path: Path) -> None:
        self._graph = open_graph(path)
        self.manifest: GraphManifest | PartsManifest = self._graph.manifest
        self.ids = self._graph.ids

    def pairs(self) -> NDArray[Any]:
        return self._graph.edges

    def features(self, by_type: bool) -> Features:
        return node_features(self.manifest, self._graph.node_table, self.manifest.nodes, by_type)

    def column(self, name: str) -> NDArray[Any]:
        return _dense(self._graph.node_table(name), name)

    def edge_table(self, name: str) -> NDArray[Any]:
        return _dense(self._graph.edge_table(name), name)


class _StoredParts:
    """What the shards of a parts directory hold, put back into imported order."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self.manifest, self.ids = parts, parts.manifest, parts.ids
        if any(record.dropped for record in parts.manifest.shards):
            raise InputError(
                f"{parts.path} was cut with zero halo hops, so edges between parts are missing. Partition with --halo-hops 1."
            )

    def pairs(self) -> NDArray[Any]:
        kind = np.int32 if self.manifest.nodes <= 1 << 31 else np.int64
        pairs = np.empty((self.manifest.edges, 2), kind)
        for shard in self._shards():
            incoming, position = shard.incoming, np.asarray(shard.position)
            pairs[incoming.edge, 0] = position[incoming.neighbours]
            pairs[incoming.edge, 1] = np.repeat(position[: incoming.rows], np.diff(incoming.offsets))
        return pairs

    def features(self, by_type: bool) -> Features:
        shards = [shard_features(shard, by_type) for shard in self._shards()]
        return joined_features(shards, np.asarray(self._parts.global_of_position))

    def column(self, name: str) -> NDArray[Any]:
        return self._gathered(
            lambda shard: (np.asarray(shard.position)[: shard.owned], _dense(shard.node_table(name), name)), self.manifest.nodes
        )

    def edge_table(self, name: str) -> NDArray[Any]:
        return self._gathered(
            lambda shard: (np.asarray(shard.incoming.edge), _dense(shard.edge_table(name), name)), self.manifest.edges
        )

    def _gathered(self, rows: Callable[[Any], tuple[NDArray[Any], NDArray[Any]]], count: int) -> NDArray[Any]:
        whole: NDArray[Any] | None = None
        for shard in self._shards():
            place, values = rows(shard)
            if whole is None:
                whole = np.zeros((count, *values.shape[1:]), values.dtype)
            whole[place] = values
        assert whole is not None
        return whole

    def _shards(self) -> list[Any]:
        return [self._parts.shard(part) for part in range(len(self._parts))]


_Stored = _StoredGraph | _StoredParts


def _dense(table: NDArray[Any] | CsrTable, name: str) -> NDArray[Any]:
    if isinstance(table, CsrTable):
        raise InputError(f"Expected the table '{name}' as a plain array, got a sparse one. Import it again as an array.")
    return np.asarray(table)
