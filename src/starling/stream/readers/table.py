"""Node table readers: over a file of columns, and over stored arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa

from starling.core.errors import InputError
from starling.stream.raw import IdKind, Ids, RawRows, TableReader
from starling.stream.readers import values
from starling.stream.readers.columns import Roles
from starling.stream.readers.edges import stored_ids
from starling.stream.readers.rows import Rows
from starling.stream.readers.source import Batch, ColumnSource, Want
from starling.stream.readers.stored import StoredArray

_ROLE_NAMES = {"label": "y"}


class ColumnTable(TableReader):
    """A node table in a text or a Parquet file, given by the user as `option` (nodes, features or labels)."""

    def __init__(self, source: ColumnSource, roles: Roles, kind: IdKind, option: str) -> None:
        self._source, self._columns, self._option = source, roles, option
        self.name, self.expected = source.name, source.rows
        self.id_kind = kind if "id" in roles else None
        self.defines_nodes = option == "nodes" and "id" in roles
        self._list_widths: dict[int, int] = {}
        self._wanted = {index: self._want(role, index) for role in roles for index in roles[role]}
        self.roles = tuple(_output_roles(roles, self))
        source.check(self._wanted)

    def blocks(self) -> Iterator[RawRows]:
        """The rows, a batch at a time."""
        start = 0
        for batch in self._source.batches(self._wanted):
            count = len(next(iter(batch.values())))
            ids = values.ids(self._source, batch, start, self._columns["id"][0]) if "id" in self._columns else None
            columns: dict[str, Any] = {}
            for role in self._columns:
                columns |= self._values(role, batch, start)
            yield RawRows(ids, columns)
            start += count

    def place(self, row: int) -> str:
        """The line or row of a row."""
        return self._source.place(row)

    def _want(self, role: str, index: int) -> Want:
        column = self._source.columns[index]
        if role == "id":
            return values.want_ids(self.id_kind or "integer")
        if role == "x" or (role == "label" and len(self._columns["label"]) > 1):
            what = "label" if role == "label" else "feature"
            advice = f"If it is no {what}, leave it out with --column {self._option}.skip={column.name}."
            return values.want_number(column, advice)
        if role in ("train", "val", "test"):
            return Want(pa.bool_())
        if role == "split":
            return Want(pa.string())
        if role == "label":
            return values.want_label(column)
        return values.want_time(column) if role == "time" else values.want_code(column)

    def _values(self, role: str, batch: Batch, start: int) -> dict[str, Any]:
        """What a role of the file gives: one column, or three masks for a column of splits; nothing for the ids."""
        columns = self._columns[role]
        if role == "x":
            return {"x": values.matrix(self._source, batch, start, columns, self._list_widths)}
        if role == "label":
            return {"y": values.labels(self._source, batch, start, columns, self._list_widths)}
        if role == "split":
            return dict(values.split_masks(self._source, batch, start, columns[0]))
        if role in ("train", "val", "test"):
            return {role: values.mask(batch[columns[0]])}
        if role == "id":
            return {}
        convert = values.times if role == "time" else values.codes
        return {role: convert(self._source, batch, start, columns[0])}


def _output_roles(roles: Roles, table: TableReader) -> Iterator[str]:
    for role in roles:
        if role == "split":
            clash = [name for name in values.SPLITS if name in roles]
            if clash:
                raise InputError(f"{table.name} gives the split twice: in a column of words and in the column '{clash[0]}'.")
            yield from values.SPLITS
        elif role != "id":
            yield _ROLE_NAMES.get(role, role)


class StoredTable(TableReader):
    """A node table of stored arrays, each with a row a node; `ids` tells whose, else row i is node i's."""

    def __init__(
        self,
        name: str,
        columns: Mapping[str, Rows],
        *,
        budget: int,
        ids: StoredArray | None = None,
        kind: IdKind = "integer",
        defines_nodes: bool = False,
    ) -> None:
        self.name, self._columns, self._ids, self._budget = name, columns, ids, budget
        self.roles, self.defines_nodes = tuple(columns), defines_nodes
        self.id_kind = kind if ids is not None else None
        counts = {rows.name: rows.rows for rows in columns.values()} | ({ids.name: ids.rows} if ids is not None else {})
        self.expected = next(iter(counts.values()))
        for array, rows in counts.items():
            if rows != self.expected:
                raise InputError(
                    f"Expected as many rows in {array} as in {next(iter(counts))}, {self.expected:,}, got {rows:,}."
                )

    def blocks(self) -> Iterator[RawRows]:
        """The rows, as many at a time as the budget holds."""
        total = self.expected or 0
        with ExitStack() as stack:
            read_ids = stack.enter_context(self._ids.open()) if self._ids is not None else None
            opened = {role: stack.enter_context(rows.open()) for role, rows in self._columns.items()}
            start = 0
            while start < total:
                fitting = [rows.within(start, self._budget) for rows in opened.values()]
                stop = min(start + min(fitting, default=1 << 16), total)
                ids = None if read_ids is None else self._as_ids(read_ids(start, stop), start)
                yield RawRows(ids, {role: rows.read(start, stop) for role, rows in opened.items()})
                start = stop

    @property
    def rows_name(self) -> str:
        """The arrays by name, where the file has several."""
        inside = [rows.name.removesuffix(f" in {self.name}") for rows in self._columns.values()]
        return self.name if not inside or self.name in inside else f"{', '.join(inside)} in {self.name}"

    def _as_ids(self, ids: Any, start: int) -> Ids:
        return stored_ids(np.asarray(ids), self.id_kind or "integer", lambda row: self.place(start + row))
