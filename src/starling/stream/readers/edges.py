"""Edge readers: over a file of columns, over a stored array, and over several of them one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.stream.raw import EDGE_ROLES, EdgeReader, IdKind, Ids, RawEdges
from starling.stream.readers import values
from starling.stream.readers.columns import Roles
from starling.stream.readers.rows import Rows, as_text
from starling.stream.readers.source import Batch, ColumnSource, Want
from starling.stream.readers.stored import StoredArray


class ColumnEdges(EdgeReader):
    """The edges in a text or a Parquet file."""

    def __init__(self, source: ColumnSource, roles: Roles, kind: IdKind) -> None:
        self._source, self._columns, self.id_kind = source, roles, kind
        self.roles = tuple(role for role in EDGE_ROLES if role in roles)
        self.name, self.width = source.name, len(roles.get("attr", ()))
        self.expected, self.total_bytes = source.rows, source.total_bytes
        self._list_widths: dict[int, int] = {}
        self._wanted = self._wants()
        source.check(self._wanted)

    def blocks(self) -> Iterator[RawEdges]:
        """The edges, a batch of rows at a time."""
        start = 0
        for batch in self._source.batches(self._wanted):
            self.bytes_read = self._source.bytes_read
            source = values.ids(self._source, batch, start, self._columns["source"][0])
            destination = values.ids(self._source, batch, start, self._columns["destination"][0])
            yield RawEdges(source, destination, {role: self._values(role, batch, start) for role in self.roles})
            start += len(source)

    def place(self, edge: int) -> str:
        """The line or row of an edge."""
        return self._source.place(edge)

    def _wants(self) -> dict[int, Want]:
        columns = self._source.columns
        wanted = {self._columns[end][0]: values.want_ids(self.id_kind) for end in ("source", "destination")}
        for role in self.roles:
            for index in self._columns[role]:
                if role in ("weight", "attr"):
                    wanted[index] = values.want_number(
                        columns[index],
                        f"If it is no {'weight' if role == 'weight' else 'attribute'}, say what it is with "
                        f"--column type={columns[index].name}, or leave it out with --column skip={columns[index].name}.",
                    )
                else:
                    wanted[index] = values.want_time(columns[index]) if role == "time" else values.want_code(columns[index])
        return wanted

    def _values(self, role: str, batch: Batch, start: int) -> Any:
        columns = self._columns[role]
        if role == "attr":
            return values.matrix(self._source, batch, start, columns, self._list_widths)
        convert = {"type": values.codes, "time": values.times, "weight": values.numbers, "split": values.edge_splits}[role]
        return convert(self._source, batch, start, columns[0])


class StoredEdges(EdgeReader):
    """The edges in a stored array with a row (source, destination) an edge, and further arrays with a row an edge."""

    def __init__(self, pairs: StoredArray, columns: Mapping[str, Rows], kind: IdKind, budget: int, word: str = "row") -> None:
        self._pairs, self._columns, self._budget, self._word, self.id_kind = pairs, columns, budget, word, kind
        self.name, self.width = pairs.name, 0
        self.expected = pairs.rows
        self.roles = tuple(role for role in EDGE_ROLES if role in columns)
        for role in self.roles:
            if columns[role].rows != pairs.rows:
                raise InputError(
                    f"Expected {pairs.rows:,} rows in {columns[role].name}, one an edge of {pairs.name}, "
                    f"got {columns[role].rows:,}."
                )

    def blocks(self) -> Iterator[RawEdges]:
        """The edges, a block of rows at a time."""
        with ExitStack() as stack:
            read = stack.enter_context(self._pairs.open())
            columns = {role: stack.enter_context(self._columns[role].open()) for role in self.roles}
            start = 0
            while start < self._pairs.rows:
                count = max(1, self._budget // self._pairs.row_bytes)
                count = min([count, *(column.within(start, self._budget) for column in columns.values())])
                stop = min(start + count, self._pairs.rows)
                pairs = read(start, stop)
                yield RawEdges(
                    self._ids(pairs[:, 0], start),
                    self._ids(pairs[:, 1], start),
                    {role: column.read(start, stop) for role, column in columns.items()},
                )
                start = stop

    def place(self, edge: int) -> str:
        """The row (or, in an array of two rows, the column) of an edge."""
        return f"{self._word} {edge} of {self.name}"

    def _ids(self, ids: NDArray[Any], start: int) -> Ids:
        return stored_ids(ids, self.id_kind, lambda row: self.place(start + row))


class ChainedEdges(EdgeReader):
    """The edges of several files, one after the other; all have the same columns."""

    def __init__(self, readers: Sequence[ColumnEdges | StoredEdges]) -> None:
        self._readers, self.id_kind, self.roles = readers, readers[0].id_kind, readers[0].roles
        self._starts: list[int] = []
        for reader in readers[1:]:
            if (reader.roles, reader.width) != (readers[0].roles, readers[0].width):
                raise InputError(
                    f"Expected the same columns in {reader.name} as in {readers[0].name} ({_described(readers[0])}), "
                    f"got {_described(reader)}."
                )
        self.expected = _sum([reader.expected for reader in readers])
        self.total_bytes = _sum([reader.total_bytes for reader in readers])

    def blocks(self) -> Iterator[RawEdges]:
        """The edges, file by file."""
        edges, bytes_before = 0, 0
        for reader in self._readers:
            self._starts.append(edges)
            for block in reader.blocks():
                self.bytes_read = bytes_before + reader.bytes_read
                edges += len(block.source)
                yield block
            bytes_before += reader.total_bytes or 0

    def place(self, edge: int) -> str:
        """The place of an edge in its file."""
        number = int(np.searchsorted(self._starts, edge, side="right")) - 1
        return self._readers[number].place(edge - self._starts[number])


def stored_ids(ids: NDArray[Any], kind: IdKind, place: Any) -> Ids:
    """Ids out of an array: int64, or text when they are to be read so."""
    if kind == "string":
        return as_text(ids)
    if ids.dtype == np.uint64 and len(ids) and int(ids.max()) > np.iinfo(np.int64).max:
        row = int(np.argmax(ids > np.uint64(np.iinfo(np.int64).max)))
        raise InputError(f"Expected ids below 2**63, got {ids[row]} at {place(row)}. Pass --ids string.")
    return np.ascontiguousarray(ids, np.int64)


def _described(reader: ColumnEdges | StoredEdges) -> str:
    roles = ["source", "destination", *reader.roles]
    return ", ".join(f"{role} of {reader.width}" if role == "attr" else role for role in roles)


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
