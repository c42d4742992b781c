"""A node table set down as it is read: its ids, if it has any, and its columns, in the order of its rows."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from starling.core.errors import InputError
from starling.core.progress import Progress
from starling.stream.ids.spool import IntegerSpool, TextSpool, new_spool
from starling.stream.raw import CsrRows, Ids, RawGraph, RawRows, TableReader
from starling.stream.tables.categories import TypeColumn
from starling.stream.tables.columns import Column, FlagColumn, FloatColumn, OtherColumn, RowName, TimeColumn
from starling.stream.tables.labels import LabelColumn
from starling.stream.tables.sparse_columns import SparseColumn
from starling.stream.tables.splits import MASKS


@dataclass(frozen=True)
class SpooledTable:
    """What was read of a table: complete, in row order, ids not looked at yet."""

    reader: TableReader
    rows: int
    ids: IntegerSpool | TextSpool | None
    columns: dict[str, Column]

    @property
    def of_all(self) -> bool:
        """Whether the table has a row for every node."""
        return self.reader.of_type is None


def spool_table(reader: TableReader, raw: RawGraph, classes: int | None, scratch: Path, progress: Progress) -> SpooledTable:
    """Read a table once, checking every value."""
    scratch.mkdir(parents=True)
    ids = None if reader.id_kind is None else new_spool(reader.id_kind, scratch / "ids.npy")
    columns: dict[str, Column] = {}
    rows = 0
    with progress.task(f"reading {reader.name}", reader.expected, "rows") as task, ExitStack() as open_files:
        if ids is not None:
            open_files.callback(ids.close)
        for block in reader.blocks():
            name = _row_name(reader, block, rows)
            count = _check_lengths(block, name)
            if ids is not None:
                ids.append(whole_ids(block.ids, _places(reader, rows)))
            for role, values in block.columns.items():
                if role not in columns:
                    columns[role] = _new_column(role, values, scratch / f"{len(columns)}.npy", raw, classes)
                    open_files.callback(columns[role].close)
                columns[role].append(values, name)
            rows += count
            task.advance(count)
    for role, column in columns.items():
        column.finish()
        if column.rows != rows:
            raise InputError(f"Expected '{role}' in all {rows:,} rows of {reader.name}, got it in {column.rows:,}.")
    return SpooledTable(reader, rows, ids, columns)


def _new_column(role: str, values: object, path: Path, raw: RawGraph, classes: int | None) -> Column:
    if isinstance(values, CsrRows):
        return SparseColumn(path, "features" if role == "x" else f"values of '{role}'")
    if role == "x":
        return FloatColumn(path, "features")
    if role == "y":
        return LabelColumn(path, classes, raw.label_names)
    if role == "type":
        return TypeColumn(path, "node type", raw.node_types)
    if role == "time":
        return TimeColumn(path)
    return FlagColumn(path) if role in MASKS else OtherColumn(path, role)


def _row_name(reader: TableReader, block: RawRows, start: int) -> RowName:
    """How messages call the rows of a block: by the user's id where there is one."""
    ids = block.ids
    if ids is None:
        return lambda row: f"node {start + row} of {reader.name}" if reader.of_type is None else reader.place(start + row)
    if isinstance(ids, pa.Array):
        return lambda row: f"node '{ids[row]}' of {reader.name}"
    return lambda row: f"node {ids[row]} of {reader.name}"


def _places(reader: TableReader, start: int) -> RowName:
    return lambda row: reader.place(start + row)


def _check_lengths(block: RawRows, name: RowName) -> int:
    lengths = {role: len(values) for role, values in block.columns.items()}
    if block.ids is not None:
        lengths["ids"] = len(block.ids)
    if len(set(lengths.values())) > 1:
        text = ", ".join(f"{count} of '{role}'" for role, count in lengths.items())
        raise InputError(f"Expected columns of equal length, got {text} from {name(0)} on.")
    return next(iter(lengths.values()), 0)


def whole_ids(ids: Ids | None, place: RowName) -> Ids:
    """Refuse a block of ids that has gaps."""
    if isinstance(ids, pa.Array) and ids.null_count:
        raise InputError(f"Expected an id everywhere, got none at {place(ids.is_null().index(True).as_py())}.")
    return ids
