"""DGL graphs and heterographs, read through their own methods, so that DGL itself need not be imported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.stream.arrays import ArrayEdges, ArrayTable
from starling.stream.bridges.columns import as_array, dense_column, edge_roles, node_columns, origin
from starling.stream.bridges.typed import EdgeSet, NodeSet, typed_graph
from starling.stream.named import named
from starling.stream.raw import CsrRows, RawGraph


def raw_from_dgl(graph: Any) -> RawGraph:
    """The graph in a ``DGLGraph``, edges in the order of their ids, with its node data and the edge data that has a role.

    Features are looked for under ``feat`` or ``x``, labels under ``label`` or ``y``, masks under ``train_mask`` and so on;
    other node data keeps its name; `user_id` holds the user's ids. Nodes of a heterograph are numbered type after type.
    """
    for method in ("ntypes", "canonical_etypes", "all_edges", "num_nodes"):
        if not hasattr(graph, method):
            raise InputError(f"Expected a DGL graph, got {type(graph).__name__}, which has no '{method}'.")
    left_out: set[str] = set()
    data = {kind: dict(graph.nodes[kind].data) for kind in graph.ntypes}
    ids = [dense_column("user_id", columns.pop("user_id")) for columns in data.values() if "user_id" in columns]
    nodes = [NodeSet(kind, int(graph.num_nodes(kind)), node_columns(data[kind])) for kind in graph.ntypes]
    edges = [
        EdgeSet(kind, *_ends(graph, kind), _edge_columns(graph.edges[kind].data, left_out)) for kind in graph.canonical_etypes
    ]
    raw = _plain(nodes[0], edges, left_out) if _is_plain(graph) else typed_graph(nodes, edges, origin("dgl", left_out))
    return named(raw, np.concatenate(ids)) if ids else raw


def _is_plain(graph: Any) -> bool:
    """Whether the graph has only the types that DGL gives to nodes and edges without any."""
    return list(graph.ntypes) == ["_N"] and len(graph.canonical_etypes) == 1


def _plain(node_set: NodeSet, edges: list[EdgeSet], left_out: set[str]) -> RawGraph:
    (edge_set,) = edges
    return RawGraph(
        edges=ArrayEdges((edge_set.source, edge_set.destination), edge_set.columns, name="the DGL graph"),
        tables=(ArrayTable("the DGL graph", node_set.columns),) if node_set.columns else (),
        nodes=node_set.count,
        origin=origin("dgl", left_out),
    )


def _ends(graph: Any, kind: tuple[str, str, str]) -> tuple[NDArray[Any], NDArray[Any]]:
    source, destination = (as_array(ends) for ends in graph.all_edges(form="uv", order="eid", etype=kind))
    if isinstance(source, CsrRows) or isinstance(destination, CsrRows):
        raise InputError(f"Expected arrays of node numbers for the edges of {kind}, got sparse ones.")
    return source, destination


def _edge_columns(data: Mapping[str, Any], left_out: set[str]) -> dict[str, NDArray[Any]]:
    roles = edge_roles(data)
    left_out |= set(data) - set(roles)
    return {role: dense_column(role, data[name]) for name, role in roles.items()}
