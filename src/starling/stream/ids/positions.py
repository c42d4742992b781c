"""What the nodes are: whether the user's ids are positions already or names to be numbered, and how many nodes there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from starling.core.errors import InputError
from starling.core.progress import Progress
from starling.kernels.edge_records import first_outside
from starling.stream.edge_spool import SpooledEdges
from starling.stream.id_index import IdTableWriter, Kind
from starling.stream.ids.complaints import (
    Complaint,
    edge_id_out_of_range,
    missing_from_table,
    not_in_edges,
    row_id_out_of_range,
    twice_in_table,
)
from starling.stream.ids.numbering import Occurrences, number_ids, position_type
from starling.stream.ids.spool import IntegerSpool, TextSpool
from starling.stream.room import Room
from starling.stream.tables.spool import SpooledTable

IdRule = Literal["auto", "position", "relabel"]

_ROOMY, _SPARE = 16, 1_000_000
"""Numbers up to 16 an edge and a million more pass as positions; larger ones are names that happen to be numbers."""


@dataclass(frozen=True)
class Spooled:
    """Everything that was read, and the number of nodes where the input says it."""

    edges: SpooledEdges
    tables: Sequence[SpooledTable]
    nodes: int | None

    @property
    def defining(self) -> SpooledTable | None:
        """The table whose rows are the nodes."""
        return next((table for table in self.tables if table.reader.defines_nodes), None)


@dataclass(frozen=True)
class Positions:
    """Nodes and edges by position: edges [E, 2] in `pairs`, and for each table with ids the position of each row."""

    kind: Kind
    nodes: int
    pairs: Path
    of_rows: tuple[Path | None, ...]


def find_positions(came: Spooled, rule: IdRule, directory: Path, room: Room, scratch: Path, progress: Progress) -> Positions:
    """Turn the user's ids into positions; where they are names, write the id table to `directory`."""
    edges = came.edges.ids
    for table in came.tables:
        if table.ids is not None and edges.rows and type(table.ids) is not type(edges):
            words = ("numbers", "names") if isinstance(edges, IntegerSpool) else ("names", "numbers")
            raise InputError(f"The ids of the edges are {words[0]}, those of {table.reader.name} are {words[1]}. Use one kind.")
    named = any(isinstance(ids, TextSpool) for ids in (edges, *(table.ids for table in came.tables)))
    if named and rule == "position":
        raise InputError("The ids are names, which cannot be positions. Leave out --ids position.")
    if isinstance(edges, IntegerSpool) and not named and _are_positions(came, edges, rule, room):
        return _as_positions(came, edges, room)
    return _by_appearance(came, "string" if named else "integer", directory, room, scratch, progress)


def _are_positions(came: Spooled, edges: IntegerSpool, rule: IdRule, room: Room) -> bool:
    if rule != "auto":
        return rule == "position"
    if came.defining is not None and isinstance(came.defining.ids, IntegerSpool):
        return _is_range(came.defining.ids, room)
    if came.nodes is not None or any(table.of_all and table.ids is None for table in came.tables):
        return True
    listed = [table.ids for table in came.tables if table.of_all and isinstance(table.ids, IntegerSpool)]
    if any(ids.low != 0 or ids.high + 1 != ids.rows for ids in listed):
        return False  # a table of all nodes that does not count them through
    return edges.low < 0 or edges.high < _ROOMY * came.edges.count + _SPARE


def _is_range(ids: IntegerSpool, room: Room) -> bool:
    """Whether ids are 0, 1, 2, … in this order."""
    at = 0
    for block in ids.blocks(room):
        if not np.array_equal(block, np.arange(at, at + len(block))):
            return False
        at += len(block)
    return True


def _as_positions(came: Spooled, edges: IntegerSpool, room: Room) -> Positions:
    nodes = _count_positions(came, edges)
    if nodes // 8 > room.bytes:
        raise InputError(
            f"Ids up to {nodes - 1:,} are more nodes than fit the memory. Pass --ids relabel to number only the ids that "
            "occur, or a larger --memory."
        )
    complaint = edge_id_out_of_range(came.edges.reader, nodes)
    if came.defining is not None and edges.low >= 0:
        complaint = missing_from_table(came.edges.reader, came.defining.reader)
    _check_range(edges, nodes, room, complaint)
    paths: list[Path | None] = []
    for table in came.tables:
        if isinstance(table.ids, IntegerSpool):
            _check_range(table.ids, nodes, room, row_id_out_of_range(table.reader, nodes))
        paths.append(table.ids.path if isinstance(table.ids, IntegerSpool) else None)
    edges.store_as(position_type(nodes))
    return Positions("position", nodes, edges.path, tuple(paths))


def _count_positions(came: Spooled, edges: IntegerSpool) -> int:
    """The number of nodes: as given, or one more than the largest position, or rows of the tables that have one a node."""
    if came.nodes is not None:
        return came.nodes
    if came.defining is not None:
        return came.defining.rows
    ends = [table.ids.high + 1 for table in came.tables if isinstance(table.ids, IntegerSpool)]
    rows = [table.rows for table in came.tables if table.of_all and table.ids is None]
    return max([edges.high + 1, *ends, *rows])


def _check_range(ids: IntegerSpool, nodes: int, room: Room, complaint: Complaint) -> None:
    if not ids.rows or (ids.low >= 0 and ids.high < nodes):
        return
    at = 0
    for block in ids.blocks(room):
        index = first_outside(block, nodes)
        if index >= 0:
            raise complaint(at + index, int(block[index]))
        at += len(block)


def _by_appearance(
    came: Spooled, kind: Literal["integer", "string"], directory: Path, room: Room, scratch: Path, progress: Progress
) -> Positions:
    defining = came.defining if came.defining is not None and came.defining.ids is not None else None
    unordered = next((table for table in came.tables if table.of_all and table.ids is None), None)
    if unordered is not None and defining is None:
        raise InputError(
            f"The rows of {unordered.reader.name} are in node order, but the ids are names, which have none. Give the table "
            "an id column, or give a node table (--nodes) that lists the ids in the order of its rows."
        )
    pairs = scratch / "positions.npy"
    of_rows = tuple(None if table.ids is None else scratch / f"positions-{k}.npy" for k, table in enumerate(came.tables))
    inputs = [Occurrences(came.edges.ids, pairs, "some")]
    if defining is not None:
        inputs = [Occurrences(came.edges.ids, pairs, "none", missing_from_table(came.edges.reader, defining.reader))]
    for table, path in zip(came.tables, of_rows, strict=True):
        if table.ids is not None and path is not None:
            if table is defining:
                inputs.insert(0, Occurrences(table.ids, path, "all", twice_in_table(table.reader)))
            else:
                inputs.append(Occurrences(table.ids, path, "none", not_in_edges(table.reader)))
    with IdTableWriter(directory, kind) as table_file:
        nodes = number_ids(inputs, table_file, room, scratch / "numbering", progress)
        table_file.index(room, scratch)
    for part in inputs:
        part.spool.remove()
    if came.nodes is not None and came.nodes != nodes:
        raise InputError(
            f"Expected {came.nodes:,} nodes, got {nodes:,} different ids. Nodes without edges need a node table (--nodes) "
            "that says what they are called."
        )
    return Positions(kind, nodes, pairs, of_rows)
