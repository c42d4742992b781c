"""A graph whose nodes are numbered, given the user's ids for its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from starling.core.errors import InputError
from starling.stream.arrays import ArrayTable
from starling.stream.raw import EdgeReader, IdKind, Ids, RawEdges, RawGraph, RawRows, TableReader


def named(raw: RawGraph, ids: Ids) -> RawGraph:
    """The same graph with ``ids[i]`` as the user's id of node i. The ids are held, nothing else is."""
    if raw.nodes not in (None, len(ids)):
        raise InputError(f"Expected an id for each of the {raw.nodes:,} nodes, got {len(ids):,}.")
    for table in raw.tables:
        if table.id_kind is not None:
            raise InputError(f"Expected rows in node order in {table.name}, got ids. The graph has ids of its own already.")
    whole = [table for table in raw.tables if table.of_type is None]
    tables: list[TableReader] = [_NamedTable(table, ids, defines=table is whole[0]) for table in whole]
    if not tables:
        tables = [ArrayTable("nodes", {}, ids=ids, defines_nodes=True)]
    of_type = [table for table in raw.tables if table.of_type is not None]
    return replace(raw, edges=_NamedEdges(raw.edges, ids), tables=(*tables, *of_type), nodes=len(ids))


def _kind(ids: Ids) -> IdKind:
    return "string" if isinstance(ids, pa.Array) else "integer"


class _NamedEdges(EdgeReader):
    """Edges between node numbers, turned into edges between ids."""

    def __init__(self, edges: EdgeReader, ids: Ids) -> None:
        self._edges, self._ids = edges, ids
        self.id_kind, self.roles, self.expected = _kind(ids), edges.roles, edges.expected

    def blocks(self) -> Iterator[RawEdges]:
        """The edges, a block at a time."""
        for block in self._edges.blocks():
            yield RawEdges(self._named(block.source), self._named(block.destination), block.columns)

    def place(self, edge: int) -> str:
        """Where an edge stands in the original."""
        return self._edges.place(edge)

    def _named(self, numbers: Any) -> Ids:
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(self._ids):
            wrong = int(numbers.min()) if int(numbers.min()) < 0 else int(numbers.max())
            raise InputError(f"Expected ends of edges in [0, {len(self._ids)}), got {wrong}.")
        return self._ids.take(numbers)


class _NamedTable(TableReader):
    """A table in node order, its rows given ids."""

    def __init__(self, table: TableReader, ids: Ids, *, defines: bool) -> None:
        self._table, self._ids, self.defines_nodes = table, ids, defines
        self.name, self.roles, self.expected, self.id_kind = table.name, table.roles, table.expected, _kind(ids)

    def blocks(self) -> Iterator[RawRows]:
        """The rows, a block at a time."""
        start = 0
        for rows in self._table.blocks():
            count = len(next(iter(rows.columns.values())))
            yield RawRows(self._ids[start : start + count], rows.columns)
            start += count

    def place(self, row: int) -> str:
        """Where a row stands in the original."""
        return self._table.place(row)
