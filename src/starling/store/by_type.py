"""A graph taken apart by type: the nodes of each type, and the edges of each relation, numbered within their types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.store.graph import CsrTable, Graph

EdgeType = tuple[str, str, str]


@dataclass(frozen=True)
class NodesOfType:
    """Positions of the nodes of one type, ascending, and their tables."""

    type: str
    positions: NDArray[np.int64]
    tables: dict[str, NDArray[Any] | CsrTable]


@dataclass(frozen=True)
class EdgesOfType:
    """Numbers of the edges of one (source type, relation, destination type), ascending; ends are numbered within types."""

    type: EdgeType
    numbers: NDArray[np.int64]
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    tables: dict[str, NDArray[Any]]


def is_typed(graph: Graph) -> bool:
    """Whether the graph names its node types."""
    return bool(graph.manifest.node_types) and "type" in graph.manifest.node_tables


def nodes_by_type(graph: Graph) -> list[NodesOfType]:
    """The nodes of each type. Labels and masks are left off types that have no label: there they are only padding."""
    codes = np.asarray(graph.node_table("type"))
    parts = []
    for code, name in enumerate(graph.manifest.node_types):
        positions = np.flatnonzero(codes == code)
        parts.append(NodesOfType(name, positions, _without_padding(dict(_tables_of(graph, name, positions)))))
    return parts


def edges_by_type(graph: Graph) -> list[EdgesOfType]:
    """The edges of each relation. One between several pairs of node types comes apart into one for each pair."""
    node_types = graph.manifest.node_types
    code = np.asarray(graph.node_table("type")).astype(np.int64)
    rank = np.empty(len(code), np.int64)
    for number in range(len(node_types)):
        members = np.flatnonzero(code == number)
        rank[members] = np.arange(len(members))
    source, destination = np.asarray(graph.edges[:, 0]), np.asarray(graph.edges[:, 1])
    typed = "type" in graph.manifest.edge_tables
    relation = np.asarray(graph.edge_table("type")).astype(np.int64) if typed else np.zeros(len(source), np.int64)
    kind = (relation * len(node_types) + code[source]) * len(node_types) + code[destination]
    order = np.argsort(kind, kind="stable")
    bounds = np.searchsorted(kind[order], np.arange((int(relation.max(initial=0)) + 1) * len(node_types) ** 2 + 1))
    tables = {name: graph.edge_table(name) for name in graph.manifest.edge_tables if name != "type"}
    parts = []
    for triple, found in names_of_kinds(node_types, graph.manifest.edge_types, np.flatnonzero(np.diff(bounds))):
        chosen = order[:0] if found is None else order[bounds[found] : bounds[found + 1]]
        own = {name: np.asarray(table)[chosen] for name, table in tables.items()}
        parts.append(EdgesOfType(triple, chosen, rank[source[chosen]], rank[destination[chosen]], own))
    return parts


def names_of_kinds(
    node_types: tuple[str, ...], edge_types: tuple[str, ...], found: NDArray[Any]
) -> Iterator[tuple[EdgeType, int | None]]:
    """Every relation with its number among `found`, and those that have a name but no edge, with None.

    A number is (relation · types + source type) · types + destination type.
    """
    pairs = len(node_types) ** 2
    unnamed = [str(code) for code in range(int(found.max(initial=0)) // pairs + 1)] if len(found) > 1 else ["to"]
    names = edge_types or unnamed
    for code, name in enumerate(names):
        head, _, rest = name.partition("__")
        middle, _, tail = rest.rpartition("__")
        triple = (head, middle, tail) if head in node_types and tail in node_types and middle else None
        numbers = [int(number) for number in found if number // pairs == code]
        if not numbers and triple:
            yield triple, None
        for number in numbers:
            ends = node_types[number % pairs // len(node_types)], node_types[number % len(node_types)]
            yield (ends[0], triple[1] if triple else name, ends[1]), number


def _tables_of(graph: Graph, kind: str, positions: NDArray[np.int64]) -> Iterator[tuple[str, NDArray[Any] | CsrTable]]:
    for name, entry in graph.manifest.node_tables.items():
        table = graph.node_table(name)
        if entry.of_type == kind:
            yield name.partition("@")[0], table
        elif entry.of_type is None and name != "type":
            yield name, _take_rows(table, positions) if isinstance(table, CsrTable) else np.asarray(table)[positions]


def _take_rows(table: CsrTable, rows: NDArray[np.int64]) -> CsrTable:
    lengths = np.asarray(table.offsets)[rows + 1] - np.asarray(table.offsets)[rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    entry = np.repeat(np.asarray(table.offsets)[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return CsrTable(offsets, np.asarray(table.columns)[entry], np.asarray(table.values)[entry], (len(rows), table.shape[1]))


def _without_padding(tables: dict[str, Any]) -> dict[str, Any]:
    masks = [name for name in ("train", "val", "test") if name in tables]
    y = tables.get("y")
    labelled = y is not None and bool((y >= 0).any() if y.ndim == 1 else y.any())
    if labelled or any(bool(tables[name].any()) for name in masks):
        return tables
    return {name: table for name, table in tables.items() if name != "y" and name not in masks}
