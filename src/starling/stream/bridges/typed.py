"""Graphs with several node and edge types, laid out as one: nodes of all types one after the other, and so the edges.

Nothing is concatenated: readers go through the sets in turn and shift, pad and number as they go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.stream.arrays import ArrayTable, slice_rows
from starling.stream.edges import BLOCK_EDGES
from starling.stream.raw import CsrRows, EdgeReader, RawEdges, RawGraph, RawRows, TableReader

EdgeType = tuple[str, str, str]

_MASKS = ("train", "val", "test")


@dataclass(frozen=True)
class NodeSet:
    """The nodes of one type and their columns."""

    type: str
    count: int
    columns: dict[str, NDArray[Any] | CsrRows]


@dataclass(frozen=True)
class EdgeSet:
    """The edges of one type (of source, relation, of destination); ends are numbered within their types."""

    type: EdgeType
    source: NDArray[Any]
    destination: NDArray[Any]
    columns: dict[str, NDArray[Any]]


def typed_graph(nodes: Sequence[NodeSet], edges: Sequence[EdgeSet], origin: dict[str, Any]) -> RawGraph:
    """One graph of all types.

    A column that every node type has in the same width becomes one table; otherwise each type keeps its own (`of_type`).
    Labels may be on one type only; on the others they are −1 (zeros where a node has several, NaN where they are real
    numbers), and masks are False.
    """
    of_all = [name for name in _names(nodes) if _padded(name) or _alike([part.columns.get(name) for part in nodes])]
    own = [
        ArrayTable(part.type, columns, of_type=part.type)
        for part in nodes
        if (columns := {name: value for name, value in part.columns.items() if name not in of_all})
    ]
    return RawGraph(
        edges=TypedEdges(nodes, edges),
        tables=(TypedTable(nodes, of_all), *own),
        nodes=sum(part.count for part in nodes),
        node_types=tuple(part.type for part in nodes),
        edge_types=tuple("__".join(part.type) for part in edges),
        origin=origin,
    )


class TypedEdges(EdgeReader):
    """The edges of all types in turn, with their type codes."""

    id_kind = "integer"

    def __init__(self, nodes: Sequence[NodeSet], edges: Sequence[EdgeSet]) -> None:
        starts = np.cumsum([0, *(part.count for part in nodes)]).tolist()
        self._first = {part.type: start for part, start in zip(nodes, starts, strict=False)}
        self._sets = edges
        names = sorted({name for part in edges for name in part.columns})
        self._fill = {name: _edge_padding(name, edges) for name in names}
        self.roles = (*names, "type")
        self.expected = sum(len(part.source) for part in edges)
        for part in edges:
            self._check(part, {node_set.type: node_set.count for node_set in nodes})

    def blocks(self) -> Iterator[RawEdges]:
        """The edges, a block of one type at a time."""
        for code, part in enumerate(self._sets):
            first, second = self._first[part.type[0]], self._first[part.type[2]]
            for start in range(0, len(part.source), BLOCK_EDGES):
                source = part.source[start : start + BLOCK_EDGES].astype(np.int64) + first
                destination = part.destination[start : start + BLOCK_EDGES].astype(np.int64) + second
                columns = {name: self._column(part, name, start, len(source)) for name in self._fill}
                columns["type"] = np.full(len(source), code, np.int64)
                yield RawEdges(source, destination, columns)

    def place(self, edge: int) -> str:
        """Where an edge stands: its number within its type."""
        for part in self._sets:
            if edge < len(part.source):
                return f"edge {edge} of {part.type}"
            edge -= len(part.source)
        return f"edge {edge}"

    def _column(self, part: EdgeSet, name: str, start: int, count: int) -> NDArray[Any]:
        if name in part.columns:
            return part.columns[name][start : start + count]
        return np.broadcast_to(self._fill[name], (count, *self._fill[name].shape))

    def _check(self, part: EdgeSet, counts: dict[str, int]) -> None:
        """An end beyond its type would quietly become a node of the next type."""
        for ends, kind in ((part.source, part.type[0]), (part.destination, part.type[2])):
            if kind not in counts:
                raise InputError(f"The edge type {part.type} names the node type '{kind}', which has no nodes.")
            if len(ends) and not 0 <= int(ends.min()) <= int(ends.max()) < counts[kind]:
                wrong = int(ends.min()) if int(ends.min()) < 0 else int(ends.max())
                raise InputError(f"Expected ends in [0, {counts[kind]}) of type '{kind}' in {part.type}, got {wrong}.")


class TypedTable(TableReader):
    """The chosen columns of all types in turn, padded where a type has none, with the type codes."""

    name = "nodes"
    id_kind = None

    def __init__(self, nodes: Sequence[NodeSet], names: Sequence[str]) -> None:
        self._sets = nodes
        self._fill = {name: _node_padding(name, nodes) for name in names}
        self.roles = (*names, "type")
        self.expected = sum(part.count for part in nodes)

    def blocks(self) -> Iterator[RawRows]:
        """The rows, a block of one type at a time."""
        for code, part in enumerate(self._sets):
            for start in range(0, part.count, BLOCK_EDGES):
                count = min(BLOCK_EDGES, part.count - start)
                columns: dict[str, Any] = {"type": np.full(count, code, np.int64)}
                for name, fill in self._fill.items():
                    if name in part.columns:
                        columns[name] = slice_rows(part.columns[name], start, start + count)
                    else:
                        columns[name] = np.broadcast_to(fill, (count, *fill.shape))
                yield RawRows(None, columns)


def _names(nodes: Sequence[NodeSet]) -> list[str]:
    return sorted({name for part in nodes for name in part.columns})


def _padded(name: str) -> bool:
    return name == "y" or name in _MASKS


def _alike(values: Sequence[Any]) -> bool:
    """Whether all types have the column, in one kind of numbers and one width."""
    if any(value is None for value in values):
        return False
    if any(isinstance(value, CsrRows) for value in values):
        return len({value.width if isinstance(value, CsrRows) else None for value in values}) == 1
    return len({(value.shape[1:], value.dtype.kind) for value in values}) == 1


def _node_padding(name: str, nodes: Sequence[NodeSet]) -> NDArray[Any]:
    """The row of a node whose type has no such column."""
    holders = [part for part in nodes if name in part.columns]
    if name != "y":
        return np.zeros((), bool)
    if len(holders) > 1:
        kinds = " and ".join(part.type for part in holders)
        raise InputError(f"Expected labels on one node type, got them on {kinds}. Remove all but one before importing.")
    labels = holders[0].columns["y"]
    if isinstance(labels, CsrRows):
        raise InputError(f"Expected dense labels, got sparse ones on '{holders[0].type}'. Convert them before importing.")
    return (
        np.zeros(labels.shape[1:], labels.dtype)
        if labels.ndim > 1
        else np.array(np.nan if labels.dtype.kind == "f" else -1, labels.dtype)
    )


def _edge_padding(name: str, edges: Sequence[EdgeSet]) -> NDArray[Any]:
    """The value of an edge whose type has no such column: weight 1, attributes 0."""
    values = [part.columns[name] for part in edges if name in part.columns]
    widths = sorted({value.shape[1:] for value in values})
    if len(widths) > 1:
        raise InputError(f"Expected the edge column '{name}' in one width for all types, got {widths[0]} and {widths[-1]}.")
    if len(values) < len(edges) and name not in ("weight", "attr"):
        raise InputError(f"Expected the edge column '{name}' on all {len(edges)} edge types or none, got it on {len(values)}.")
    return np.full(widths[0], 1 if name == "weight" else 0, values[0].dtype)
