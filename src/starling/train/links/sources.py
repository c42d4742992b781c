"""The edges of a source, and the same source without those that are held out: alone, and as a worker's share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.engine.hybrid.source import WorkerSource, recounted, weighted_degree_of, whole_exchange
from starling.engine.source import GraphSource, read_edge_table
from starling.plan.links.splits import TRAIN
from starling.train.links.data import HeldEdges, training_lists


def held_by(source: GraphSource) -> HeldEdges:
    """All edges of a graph, as one process holds them."""
    relation = source.edge_tables.get("type")

    def column(name: str) -> NDArray[Any] | None:
        values = read_edge_table(source.path, name)
        return None if values is None else values[source.incoming.edge]

    return HeldEdges(
        source.path,
        source.incoming,
        np.arange(source.nodes),
        None if relation is None else relation.numpy(),
        source.nodes,
        source.directed,
        column,
        source.total,
        lambda values: [values],
    )


def training_source(source: GraphSource, held: HeldEdges, split: NDArray[np.uint8]) -> GraphSource:
    """The same graph without held-out edges."""
    lists, stays = training_lists(held, split)
    chosen = torch.from_numpy(np.flatnonzero(stays))
    return replace(source, incoming=lists, edge_tables={name: table[chosen] for name, table in source.edge_tables.items()})


def held_by_worker(source: WorkerSource) -> HeldEdges:
    """The in-edges of a worker's nodes."""
    graph, relation = source.graph, source.edge_tables.get("type")
    if graph.spread:
        raise InputError(
            f"Link prediction needs whole neighbour lists, got a vertex-cut in {source.path}. Partition without --keep-vertex-cut."
        )

    def column(name: str) -> NDArray[Any] | None:
        return graph.edge_column(name) if name in graph.manifest.edge_tables else None

    return HeldEdges(
        source.path,
        graph.incoming,
        graph.position,
        None if relation is None else relation.numpy(),
        source.nodes,
        graph.manifest.directed or graph.kept is not None,  # of an edge and its reverse one may be later
        column,
        source.total,
        lambda values: source.team.all_lists(source.calls.forward(), values),
    )


def training_share(source: WorkerSource, held: HeldEdges, split: NDArray[np.uint8]) -> WorkerSource:
    """The same share without held-out edges; workers tell one another the degrees that are left."""
    stays = split == TRAIN
    chosen = torch.from_numpy(np.flatnonzero(stays))
    tables = {name: table[chosen] for name, table in source.edge_tables.items()}
    exchange = whole_exchange(source.team, source.graph, source.calls)
    graph = recounted(source.graph.only(stays), exchange)
    return replace(source, graph=graph, edge_tables=tables, weighted_degree=weighted_degree_of(graph, tables, exchange))
