"""The edges of a source, and the same source without those that are held out: alone, and as a worker's share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.manifest import read_json
from starling.engine.hybrid.share.source import WorkerSource, recounted, weighted_degree_of, whole_exchange
from starling.engine.source import GraphSource, read_edge_table
from starling.train.links.data import AllEdges, HeldEdges, training_lists


def all_edges(source: GraphSource | WorkerSource, held: HeldEdges) -> AllEdges:
    """What one process or worker holds, as one piece of all edges."""
    if isinstance(source, WorkerSource):
        team, calls, tables = source.team, source.calls, tuple(source.graph.manifest.edge_tables)
        typed = held.relation is not None
        return AllEdges(
            source.path, lambda: [held], tables, typed, source.total, lambda values: team.all_lists(calls.next_tag(), values)
        )
    tables = tuple(read_json(source.path)["edge_tables"])  # type: ignore[arg-type]
    return AllEdges(source.path, lambda: [held], tables, held.relation is not None, source.total, lambda values: [values])


def held_by(source: GraphSource) -> HeldEdges:
    """All edges of a graph, as one process holds them."""
    relation = source.edge_tables.get("type")

    def column(name: str) -> NDArray[Any]:
        values = read_edge_table(source.path, name)
        assert values is not None, "it is among the tables"
        chosen: NDArray[Any] = values[source.incoming.edge]
        return chosen

    return HeldEdges(
        source.incoming,
        np.arange(source.nodes),
        None if relation is None else relation.numpy(),
        source.nodes,
        source.directed,
        column,
    )


def training_source(source: GraphSource, held: HeldEdges, trains: NDArray[np.bool_]) -> GraphSource:
    """The same graph without held-out edges."""
    chosen = torch.from_numpy(np.flatnonzero(trains))
    tables = {name: table[chosen] for name, table in source.edge_tables.items()}
    return replace(source, incoming=training_lists(held, trains), edge_tables=tables)


def held_by_worker(source: WorkerSource) -> HeldEdges:
    """The in-edges of a worker's nodes."""
    graph, relation = source.graph, source.edge_tables.get("type")
    if graph.spread:
        raise InputError(
            f"--parallel data predicts links from whole neighbour lists, got a vertex-cut in {source.path}. Partition without "
            "--keep-vertex-cut, or pass --parallel hybrid."
        )
    return HeldEdges(
        graph.incoming,
        graph.position,
        None if relation is None else relation.numpy(),
        source.nodes,
        graph.manifest.directed or graph.kept is not None,  # of an edge and its reverse one may be later
        graph.edge_column,
    )


def training_share(source: WorkerSource, trains: NDArray[np.bool_]) -> WorkerSource:
    """The same share without held-out edges; workers tell one another the degrees that are left."""
    chosen = torch.from_numpy(np.flatnonzero(trains))
    tables = {name: table[chosen] for name, table in source.edge_tables.items()}
    exchange = whole_exchange(source.team, source.graph, source.calls)
    graph = recounted(source.graph.only(trains), exchange)
    return replace(source, graph=graph, edge_tables=tables, weighted_degree=weighted_degree_of(graph, tables, exchange))
