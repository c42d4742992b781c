"""Parquet as a source of columns, read in batches that do not depend on how large its row groups are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from starling.core.errors import InputError
from starling.stream.readers.diagnose import first_failing
from starling.stream.readers.files import existing, sound
from starling.stream.readers.source import NUMERIC, Batch, Column, ColumnSource, Kind, Want

_MOST_ROWS = 1 << 20
_READ_BUFFER = 1 << 20  # bytes of a column chunk read at a time, instead of the whole chunk


class ParquetColumns(ColumnSource):
    """The columns of a Parquet file."""

    named = True

    def __init__(self, name: str, block: int) -> None:
        self._path, self.name = existing(name), name
        with self._open() as file, sound(name):
            self._schema, self._names, self.rows = file.schema_arrow, file.schema_arrow.names, file.metadata.num_rows
            groups = [file.metadata.row_group(group) for group in range(file.metadata.num_row_groups)]
            row_bytes = sum(group.total_byte_size for group in groups) // max(1, self.rows)
        if len(set(self._names)) < len(self._names):
            raise InputError(f"Expected every column of {name} to have a name of its own. Rename those that share one.")
        self._batch = max(1, min(_MOST_ROWS, block // max(1, row_bytes, 8 * len(self._schema))))
        kinds = [_kind(field.type) for field in self._schema]
        self.columns = tuple(map(Column, range(len(kinds)), self._names, kinds, kinds))

    def check(self, wanted: Mapping[int, Want]) -> None:
        """Refuse a column whose type cannot hold what is wanted."""
        for index, want in wanted.items():
            column = self.columns[index]
            if column.kind not in _acceptable(want.type):
                expected = want.noun if not pa.types.is_string(want.type) else "text or whole numbers"
                sentence = f"Expected {expected} in {column} of {self.name}, got the type {self._schema.field(index).type}."
                raise InputError(f"{sentence} {want.advice}".rstrip())

    def batches(self, wanted: Mapping[int, Want]) -> Iterator[Batch]:
        """The wanted columns, some rows at a time."""
        names = [self._names[index] for index in wanted]
        start = 0
        with self._open() as file:
            batches = file.iter_batches(self._batch, columns=names)
            while True:
                with sound(self.name):
                    batch = next(batches, None)
                if batch is None:
                    break
                columns = {index: batch.column(self._names[index]) for index in wanted}
                yield {index: self._convert(columns[index], index, want, start) for index, want in wanted.items()}
                start += len(batch)

    def place(self, row: int) -> str:
        """The row, from 0."""
        return f"row {row} of {self.name}"

    def _open(self) -> pq.ParquetFile:
        with sound(self.name):
            return pq.ParquetFile(self._path, buffer_size=_READ_BUFFER, pre_buffer=False)

    def _convert(self, values: pa.Array, index: int, want: Want, start: int) -> pa.Array:
        wanted = pa.list_(want.type) if self.columns[index].kind == "list" else want.type
        if pa.types.is_boolean(wanted) and self.columns[index].kind == "integer":
            wrong = pc.index(pc.is_in(values, value_set=pa.array([0, 1, None], values.type)), False).as_py()
            if wrong >= 0:
                self.refuse(start + wrong, index, want.noun, str(values[wrong].as_py()))
        if pa.types.is_date32(values.type):
            values = values.cast(pa.int32())  # days; pyarrow has no direct way to 64 bits
        try:
            return _cast(values, wanted)
        except pa.ArrowInvalid:
            row = first_failing(values, lambda part: _cast(part, wanted)) or 0
        got = "bytes that are not UTF-8" if pa.types.is_string(wanted) else f"'{values[row].as_py()}'"
        self.refuse(start + row, index, want.noun, got, want.advice)


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert exactly: a rounded number is fine, a cut id or a broken text is not."""
    values = values.cast(wanted, safe=not (pa.types.is_floating(wanted) or pa.types.is_list(wanted)))
    if pa.types.is_string(wanted):
        values.validate(full=True)  # Parquet calls any bytes text
    return values


def _acceptable(wanted: pa.DataType) -> tuple[Kind, ...]:
    if pa.types.is_string(wanted):
        return ("text", "integer", "empty")
    if pa.types.is_integer(wanted):
        return ("integer", "moment", "empty")
    if pa.types.is_boolean(wanted):
        return ("boolean", "integer", "empty")
    return (*NUMERIC, "list", "empty")


def _kind(found: pa.DataType) -> Kind:
    if pa.types.is_dictionary(found):
        return _kind(found.value_type)
    tests: list[tuple[Kind, bool]] = [
        ("integer", pa.types.is_integer(found)),
        ("number", pa.types.is_floating(found) or pa.types.is_decimal(found)),
        ("boolean", pa.types.is_boolean(found)),
        ("text", pa.types.is_string(found) or pa.types.is_large_string(found) or _is_binary(found)),
        ("moment", pa.types.is_timestamp(found) or pa.types.is_date(found)),
        ("list", _is_number_list(found)),
        ("empty", pa.types.is_null(found)),
    ]
    return next((kind for kind, holds in tests if holds), "other")


def _is_binary(found: pa.DataType) -> bool:
    return bool(pa.types.is_binary(found) or pa.types.is_large_binary(found))


def _is_number_list(found: pa.DataType) -> bool:
    lists = pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found)
    return bool(lists) and _kind(found.value_type) in NUMERIC
