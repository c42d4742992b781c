"""NetworkX graphs of any kind; node names become the user's ids."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.stream.arrays import ArrayEdges, ArrayTable
from starling.stream.bridges.columns import dense_column, edge_roles, node_roles, origin
from starling.stream.named import named
from starling.stream.raw import Ids, RawGraph

_MISSING = {"weight": 1, "train": False, "val": False, "test": False}


def raw_from_networkx(graph: Any) -> RawGraph:
    """The graph with its nodes in NetworkX's order; each edge of an undirected graph stands in both directions.

    Names that are all whole numbers of at least 0 stay numbers; any others become strings. Node attributes that every node
    has are kept (labels and splits may be missing), and edge attributes that have a role (weight, type, time, …). An edge
    without a weight, among others that have one, weighs 1, as everywhere in NetworkX. What is not kept is named in the
    origin.
    """
    if not hasattr(graph, "adjacency") or not hasattr(graph, "is_directed"):
        raise InputError(f"Expected a NetworkX graph, got {type(graph).__name__}.")
    names = list(graph.nodes)
    position = {name: number for number, name in enumerate(names)}
    edges = list(graph.edges(data=True))
    if not graph.is_directed():
        edges += [(v, u, data) for u, v, data in edges if u != v]
    ends = [np.fromiter((position[edge[side]] for edge in edges), np.int64, len(edges)) for side in (0, 1)]
    node_rows, edge_rows = [data for _, data in graph.nodes(data=True)], [data for _, _, data in edges]
    columns, left_out = _columns(node_rows, node_roles(_attributes(node_rows)))
    edge_columns, left_out_of_edges = _columns(edge_rows, edge_roles(_attributes(edge_rows)))
    raw = RawGraph(
        edges=ArrayEdges((ends[0], ends[1]), edge_columns, name="the NetworkX graph"),
        tables=(ArrayTable("the NetworkX graph", columns),) if columns else (),
        nodes=len(names),
        origin=origin("networkx", [*left_out, *left_out_of_edges]),
    )
    return raw if names == list(range(len(names))) else named(raw, _ids(names))


def _ids(names: list[Any]) -> Ids:
    if all(type(name) is int and 0 <= name < 2**63 for name in names):
        return np.array(names, np.int64)
    texts = [str(name) for name in names]
    if len(set(texts)) < len(texts):
        twice = Counter(texts).most_common(1)[0][0]
        raise InputError(f"Two nodes are both called '{twice}' when written as text. Rename one of them.")
    return pa.array(texts, pa.string())


def _attributes(rows: list[dict[str, Any]]) -> list[str]:
    return sorted({name for row in rows for name in row if isinstance(name, str)})


def _columns(rows: list[dict[str, Any]], roles: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The attributes that make a column, by role, and the names of those that do not."""
    columns = {}
    for name, role in roles.items():
        values = _values([row.get(name, _MISSING.get(role)) for row in rows], role)
        if values is not None:
            columns[role] = values
    return columns, [name for name in _attributes(rows) if roles.get(name) not in columns]


def _values(values: list[Any], role: str) -> NDArray[Any] | pa.Array | None:
    """The values as a column, or None where they are not numbers of one shape (or, of labels and types, names)."""
    missing = any(value is None for value in values)
    if missing and role != "y":
        return None
    if role in ("y", "type") and all(value is None or isinstance(value, str) for value in values):
        return pa.array(values, pa.string())
    none = float("nan") if any(isinstance(value, float) for value in values) else -1
    try:
        array = np.array([none if value is None else value for value in values])
    except ValueError:  # rows of different lengths
        return None
    return dense_column(role, array) if array.dtype.kind in "biuf" else None
