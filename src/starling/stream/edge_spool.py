"""Edges set down as they are read: ids as the user has them, and a file for each edge table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from starling.core.errors import InputError
from starling.core.progress import Progress
from starling.stream.ahead import read_ahead
from starling.stream.ids.spool import IntegerSpool, TextSpool, new_spool
from starling.stream.raw import EdgeReader, RawEdges
from starling.stream.tables.categories import TypeColumn
from starling.stream.tables.columns import DenseColumn, FloatColumn, RowName, SplitColumn, TimeColumn
from starling.stream.tables.spool import whole_ids


@dataclass(frozen=True)
class SpooledEdges:
    """All edges of the input, in its order."""

    reader: EdgeReader
    ids: IntegerSpool | TextSpool
    columns: dict[str, DenseColumn]

    @property
    def count(self) -> int:
        """How many edges there are."""
        return self.ids.rows

    @property
    def type_names(self) -> tuple[str, ...]:
        """Names of the edge types, where they have names."""
        types = self.columns.get("type")
        return types.names if isinstance(types, TypeColumn) else ()


def spool_edges(reader: EdgeReader, type_names: tuple[str, ...], scratch: Path, progress: Progress) -> SpooledEdges:
    """Read all edges once, checking their tables."""
    scratch.mkdir(parents=True)
    ids = new_spool(reader.id_kind, scratch / "pairs.npy", pairs=True)
    columns = {role: _new_column(role, scratch / f"{role}.npy", type_names) for role in reader.roles}
    with ExitStack() as open_files:
        for file in (ids, *columns.values()):
            open_files.callback(file.close)
        for block in _watched(reader, progress):
            place = _places(reader, ids.rows)
            for role, column in columns.items():
                column.append(block.columns[role], place)
            ids.append(whole_ids(block.source, place), whole_ids(block.destination, place))
    for role, column in columns.items():
        column.finish()
        if column.rows != ids.rows:
            raise InputError(f"Expected '{role}' for all {ids.rows:,} edges, got it for {column.rows:,}.")
    return SpooledEdges(reader, ids, {role: column for role, column in columns.items() if column.rows})


def _watched(reader: EdgeReader, progress: Progress) -> Iterator[RawEdges]:
    """The blocks of a reader, read ahead, with progress in edges or, where nobody knows how many there are, in bytes."""
    by_bytes = reader.expected is None and reader.total_bytes is not None
    total, unit = (reader.total_bytes, "bytes") if by_bytes else (reader.expected, "edges")
    seen = 0
    with progress.task("reading edges", total, unit) as task:
        for block in read_ahead(reader.blocks()):
            if len(block.source):
                yield block
            task.advance(reader.bytes_read - seen if by_bytes else len(block.source))
            seen = reader.bytes_read


def _places(reader: EdgeReader, start: int) -> RowName:
    return lambda row: reader.place(start + row)


def _new_column(role: str, path: Path, type_names: tuple[str, ...]) -> DenseColumn:
    if role == "weight":
        return FloatColumn(path, "weights", flat=True)
    if role == "attr":
        return FloatColumn(path, "edge attributes")
    if role == "type":
        return TypeColumn(path, "edge type", type_names)
    if role == "time":
        return TimeColumn(path)
    if role == "split":
        return SplitColumn(path)
    raise ValueError(f"unknown edge role '{role}'")
