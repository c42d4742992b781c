"""What a sampler needs of a graph: in-neighbour lists, where its rows stood in the imported graph, edges' weights, types and times.

A whole graph and a shard look alike from here. Rows that a shard knows only as a far halo have no list; asking for one is an
error, not an empty neighbourhood.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError, StarlingError
from starling.kernels.csr import Csr, csr_from_pairs
from starling.kernels.degrees import check_nodes

if TYPE_CHECKING:
    from starling.store.graph import Graph
    from starling.store.parts import Shard


@dataclass(frozen=True)
class EdgeColumns:
    """What samplers read of edges beside their ends: the table to weigh them by, how many types there are, and times."""

    weight: str | None = None
    relations: int = 0
    timed: bool = False


ENDS_ALONE = EdgeColumns()


@dataclass(frozen=True, eq=False)
class NeighbourSource:
    """In-neighbour lists of the first rows of a graph, neighbours being numbers of its `rows` rows.

    `position` [rows] is each row's place in the imported graph, by which random choices are keyed (None: the row itself).
    `edge_weight`, `edge_type` and `edge_time` have a value for each entry of the lists, `node_time` for each row: the moment it is
    to be known at. `relations` are the names of edge types, `types` how many there are. `degree` [rows] are in-degrees in the whole
    graph, needed where some rows have no list here. Lists keep the imported order of edges.
    """

    incoming: Csr
    rows: int
    position: NDArray[Any] | None = None
    edge_weight: NDArray[Any] | None = None
    degree: NDArray[Any] | None = None
    edge_type: NDArray[Any] | None = None
    relations: tuple[str, ...] = ()
    types: int = 0
    edge_time: NDArray[Any] | None = None
    node_time: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if self.rows > np.iinfo(np.int32).max:
            raise InputError(f"Expected at most {np.iinfo(np.int32).max:,} rows to sample from, got {self.rows:,}.")
        check_nodes(self.incoming.neighbours, self.rows)
        for noun, values in (("weight", self.edge_weight), ("type", self.edge_type), ("time", self.edge_time)):
            if values is not None and values.shape != self.incoming.neighbours.shape:
                edges = len(self.incoming.neighbours)
                raise InputError(f"Expected one {noun} for each of {edges:,} edges, got an array of shape {values.shape}.")

    def positions_of(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Where rows stood in the imported graph."""
        return rows if self.position is None else self.position[rows]

    def rows_at(self, positions: NDArray[Any]) -> NDArray[Any]:
        """The rows of nodes at positions of the imported graph, each of which has one here."""
        if self.position is None:
            return positions
        order, ranked = self._by_position
        return order[np.searchsorted(ranked, positions)]

    @cached_property
    def _by_position(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        assert self.position is not None
        order = np.argsort(self.position)
        return order, self.position[order]

    @cached_property
    def in_degree(self) -> NDArray[Any]:
        """In-degree in the whole graph of every row [rows]."""
        if self.degree is not None:
            return self.degree
        degrees = np.zeros(self.rows, np.int64)
        degrees[: self.incoming.rows] = np.diff(self.incoming.offsets)
        return degrees

    @cached_property
    def in_imported_order(self) -> NDArray[Any]:
        """All rows that have lists, in the order of their positions: the order in which chances are laid out."""
        rows = np.arange(self.incoming.rows, dtype=self.incoming.neighbours.dtype)
        return rows if self.position is None else np.argsort(self.position[: len(rows)], kind="stable").astype(rows.dtype)

    def check_lists(self, rows: NDArray[Any]) -> None:
        """Refuse rows whose in-edges are not here."""
        if len(rows) and int(rows.max()) >= self.incoming.rows:
            raise StarlingError(
                f"Expected rows with in-edges, below {self.incoming.rows:,}, got row {int(rows.max()):,}, "
                "a halo node of the last hop. Partition with more --halo-hops, one a layer."
            )


def source_of_graph(graph: Graph, *, weight: str | None = None, threads: int | None = None) -> NeighbourSource:
    """The neighbour lists of a graph directory, held in memory; `weight` names the edge table to sample by."""
    incoming = csr_from_pairs(graph.edges, graph.nodes, threads=threads)
    weights = None if weight is None else _column(graph.edge_table(weight), weight)[incoming.edge]
    return NeighbourSource(incoming, graph.nodes, None, weights)


def source_of_shard(shard: Shard, columns: EdgeColumns = ENDS_ALONE) -> NeighbourSource:
    """The neighbour lists of one part, with columns of their edges, mapped from disk."""
    if shard.parts.kind != "edge-cut":
        raise InputError(
            "Expected parts that hold whole neighbour lists, got a vertex-cut. Partition without --keep-vertex-cut."
        )
    weight, relations = columns.weight, columns.relations
    return NeighbourSource(
        shard.incoming,
        shard.local,
        shard.position,
        edge_weight=None if weight is None else _column(shard.edge_table(weight), weight),
        degree=shard.in_degree,
        edge_type=_column(shard.edge_table("type"), "type") if relations else None,
        relations=shard.parts.edge_types,
        types=relations,
        edge_time=_column(shard.edge_table("time"), "time") if columns.timed else None,
    )


def _column(table: Any, name: str) -> NDArray[Any]:
    if not isinstance(table, np.ndarray) or table.ndim != 1:
        raise InputError(f"Expected one number an edge in the table '{name}', got {getattr(table, 'shape', 'a sparse table')}.")
    return table
