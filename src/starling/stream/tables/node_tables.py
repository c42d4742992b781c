"""Node tables from the order of their rows to the order of the nodes, and what the manifest says about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from urllib.parse import quote

from starling.core.errors import InputError
from starling.core.manifest import Labels, Table
from starling.stream.id_index import IdIndex
from starling.stream.ids.positions import Positions
from starling.stream.raw import TableReader
from starling.stream.room import Room
from starling.stream.tables.categories import TypeColumn
from starling.stream.tables.columns import Column, FlagColumn, Place
from starling.stream.tables.labels import LabelColumn
from starling.stream.tables.row_places import NodeTypes, RowPlaces, user_id
from starling.stream.tables.splits import MASKS, Shares, draw_split, first_overlap
from starling.stream.tables.spool import SpooledTable

_RESERVED = ("edges", "ids")


@dataclass
class NodeTables:
    """Settled node tables, as the manifest tells of them."""

    tables: dict[str, Table] = field(default_factory=dict)
    node_types: tuple[str, ...] = ()
    labels: Labels | None = None
    splits: dict[str, int] = field(default_factory=dict)


def check_roles(tables: Sequence[TableReader]) -> None:
    """Refuse tables that contradict each other, before anything is read."""
    seen: dict[str, str] = {}
    for table in tables:
        for role in table.roles:
            key = table_key(role, table.of_type)
            if key in seen:
                raise InputError(f"Both {seen[key]} and {table.name} give '{key}'. Leave one of them out.")
            seen[key] = table.name
            if role in _RESERVED:
                raise InputError(
                    f"The column '{role}' of {table.name} has a name that Starling needs itself. Rename the column."
                )
    labelled = [key for key in seen if key == "y" or key.startswith("y@")]
    if len(labelled) > 1:
        raise InputError(f"Expected labels for all nodes or for one type, got {' and '.join(labelled)}. Rename all but one.")
    defining = [table.name for table in tables if table.defines_nodes]
    if len(defining) > 1:
        raise InputError(f"Expected one node table, got {' and '.join(defining)}. Leave all but one out.")
    for table in tables:
        if table.defines_nodes and table.of_type is not None:
            raise InputError(f"The node table {table.name} must list all nodes, not only those of type '{table.of_type}'.")


def table_key(role: str, of_type: str | None) -> str:
    """What a table is called in the manifest: ``x``, or ``x@paper`` for nodes of one type."""
    return role if of_type is None else f"{role}@{of_type}"


class NodeTableWriter:
    """Puts spooled tables where they belong in a graph directory; types first, since they say how many rows others need."""

    def __init__(self, positions: Positions, directory: Path, room: Room, scratch: Path) -> None:
        self._nodes, self._of_rows, self._directory, self._scratch = positions.nodes, positions.of_rows, directory, scratch
        self._index = IdIndex(directory, positions.kind, positions.nodes)
        self._places = RowPlaces(self._index, room)
        self._written = NodeTables()

    def write(self, tables: Sequence[SpooledTable]) -> NodeTables:
        """Settle all tables, which are those whose row positions the writer was made with."""
        everything = sorted(zip(tables, self._of_rows, strict=True), key=lambda pair: not _has_types(pair[0]))
        for number, (table, positions) in enumerate(everything):
            scratch = self._scratch / f"settling-{number}"
            scratch.mkdir()
            order = self._places.order(table, positions, scratch)
            for role, column in table.columns.items():
                place = Place(self._directory, _stem(role, table.reader.of_type), table.reader.of_type)
                settled = column.settle(place, order)
                if settled is not None:
                    self._note(role, column, settled)
        self._check_masks()
        return self._written

    def draw_split(self, shares: Shares, seed: int) -> NodeTables:
        """Add masks drawn at random among the labelled nodes."""
        tables = self._written.tables
        given = next((key for key in tables if key.partition("@")[0] in MASKS), None)
        if given is not None:
            raise InputError(f"The data has a split already ('{given}'). Leave out --split, or leave out the masks.")
        labels = next((table for key, table in tables.items() if key.partition("@")[0] == "y"), None)
        rows, of_type = (self._nodes, None) if labels is None else (labels.shape[0], labels.of_type)
        files = {mask: f"{_stem(mask, of_type)}.npy" for mask in MASKS}
        paths = {mask: self._directory / file for mask, file in files.items()}
        label_file = None if labels is None else self._directory / labels.files[0]
        self._written.splits = draw_split(rows, label_file, shares, seed, paths)
        for mask, file in files.items():
            table = Table(layout="dense", dtype="bool", shape=(rows,), files=(file,), of_type=of_type)
            tables[table_key(mask, of_type)] = table
        return self._written

    def _note(self, role: str, column: Column, settled: Table) -> None:
        """Remember what the manifest has to say about a column."""
        written = self._written
        written.tables[table_key(role, settled.of_type)] = settled
        if isinstance(column, TypeColumn) and settled.of_type is None:
            written.node_types = column.names
            self._places.types = NodeTypes(self._directory / settled.files[0], column.names, column.counts)
        if isinstance(column, LabelColumn):
            written.labels = column.describe()
        if isinstance(column, FlagColumn):
            written.splits[role] = written.splits.get(role, 0) + column.true

    def _check_masks(self) -> None:
        self._written.splits = {mask: self._written.splits[mask] for mask in MASKS if mask in self._written.splits}
        tables = self._written.tables
        for of_type in {None, *(table.of_type for table in tables.values())}:
            masks = [(mask, tables[table_key(mask, of_type)]) for mask in MASKS if table_key(mask, of_type) in tables]
            for (one, first), (other, second) in combinations(masks, 2):
                row = first_overlap(self._directory / first.files[0], self._directory / second.files[0])
                if row is not None:
                    node = user_id(self._index, row) if of_type is None else f"{row} of type '{of_type}'"
                    raise InputError(f"Expected disjoint splits, got node {node} in both {one} and {other}. Fix the masks.")


def _has_types(table: SpooledTable) -> bool:
    return table.of_all and "type" in table.columns


def _stem(role: str, of_type: str | None) -> str:
    """The name of a table's file, safe whatever the table is called."""
    return "@".join(quote(part, safe="").replace(".", "%2E") for part in (role, of_type) if part is not None)
