"""Comma-, tab- or space-separated text as a source of columns: parsed by pyarrow, block by block of clean lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from starling.core.errors import InputError
from starling.stream.readers.diagnose import explain
from starling.stream.readers.dialect import fields, given_dialect, guess_dialect, is_header, unquoted
from starling.stream.readers.lines import Dialect, LineBlock, line_blocks
from starling.stream.readers.source import Batch, Column, ColumnSource, Kind, Want
from starling.stream.readers.textinput import TextInput

_SAMPLE_BYTES, _SAMPLE_LINES = 1 << 16, 50
_PARSE_BYTES = 1 << 20  # pyarrow parses pieces of this size on its threads
_REMEMBERED_DROPS = 1 << 20


class TextColumns(ColumnSource):
    """The columns of a text.

    `header` says whether the first line names the columns (None: look), `known_names` whether a line of words reads like
    such a line, `ends` how many columns are the ends of an edge (see `is_header`). What each column holds is decided by
    the first block; a later cell that does not fit is an error.
    """

    def __init__(
        self,
        text: TextInput,
        *,
        header: bool | None,
        delimiter: str | None,
        known_names: Callable[[Sequence[str]], bool],
        ends: int,
        block: int,
    ) -> None:
        self._text, self.name, self._block, self.total_bytes = text, text.name, block, text.total_bytes
        self._dialect = given_dialect(delimiter) if delimiter else self._guess_dialect()
        first = self._first_block(self._dialect)
        rows = [fields(line, self._dialect) for line in _sample(first)[:2]]
        second = rows[1] if len(rows) > 1 else []
        self.named = is_header(rows[0], second, known_names(rows[0]), ends=ends) if header is None else header
        self._width = len(rows[0])
        names = [unquoted(name) for name in rows[0]] if self.named else [str(index) for index in range(self._width)]
        data = first.without_first() if self.named else first
        self.columns = tuple(map(Column, range(self._width), names, self._kinds(data), self._kinds(data.only_first())))
        self._places = _Places()

    def check(self, wanted: Mapping[int, Want]) -> None:
        """Refuse a cell of the first block that does not fit, where what the columns hold tells that there is one."""
        if any(not _fits(self.columns[index].kind, want.type) for index, want in wanted.items()):
            first = self._first_block(self._dialect)
            self._parse(first.without_first() if self.named else first, wanted)

    def batches(self, wanted: Mapping[int, Want]) -> Iterator[Batch]:
        """The wanted columns, a block of lines at a time."""
        row, header_seen = 0, not self.named
        with self._text.open() as file:
            for block in line_blocks(file, self.name, self._dialect, self._block):
                if not header_seen and block.count:
                    block, header_seen = block.without_first(), True
                self.bytes_read = self._text.bytes_read()
                if block.count == 0:
                    continue
                self._places.add(row, block)
                table = self._parse(block, wanted)
                row += block.count
                yield {index: table.column(place).combine_chunks() for place, index in enumerate(wanted)}

    def place(self, row: int) -> str:
        """The line of a row that has been read."""
        return f"{self._places.line(row)} of {self.name}"

    def _parse(self, block: LineBlock, wanted: Mapping[int, Want]) -> pa.Table:
        try:
            table = parse(block, self._dialect, self._width, {index: want.type for index, want in wanted.items()}, only=True)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise explain(block, self._dialect, self.columns, wanted, self.name, error) from error
        if table.num_rows != block.count:
            mismatch = ValueError(f"{block.count:,} lines gave {table.num_rows:,} rows")
            raise explain(block, self._dialect, self.columns, wanted, self.name, mismatch)
        return table

    def _guess_dialect(self) -> Dialect:
        plain = Dialect("\t")  # only drops comments and blanks, and keeps all that may be a delimiter
        return guess_dialect(_sample(self._first_block(plain)), self.name)

    def _first_block(self, dialect: Dialect) -> LineBlock:
        with self._text.head() as file:
            for block in line_blocks(file, self.name, dialect, self._block):
                if block.count:
                    return block
        raise InputError(f"{self.name} has no rows, only comments or blank lines.")

    def _kinds(self, block: LineBlock) -> list[Kind]:
        if block.count == 0:
            return ["empty"] * self._width
        try:
            table = parse(block, self._dialect, self._width, {}, only=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            columns = [Column(index, str(index), "other", "other") for index in range(self._width)]
            raise explain(block, self._dialect, columns, {}, self.name, error) from error
        return [_kind(found) for found in table.schema.types]


def parse(block: LineBlock, dialect: Dialect, width: int, types: Mapping[int, pa.DataType], *, only: bool) -> pa.Table:
    """Parse clean lines with pyarrow, columns called "0", "1", …; types not given are found out, `only` leaves them out."""
    return pacsv.read_csv(
        pa.BufferReader(block.text),
        pacsv.ReadOptions(
            column_names=[str(index) for index in range(width)],
            block_size=max(_PARSE_BYTES, block.longest + 1),  # a line may reach into the next piece, not across it
        ),
        pacsv.ParseOptions(delimiter=dialect.delimiter, quote_char='"' if dialect.quotes else False),
        pacsv.ConvertOptions(
            column_types={str(index): kind for index, kind in types.items()},
            include_columns=[str(index) for index in types] if only else [],
            null_values=[""],  # so that "nan" is a number and "NA" a mistake
            strings_can_be_null=True,
        ),
    )


def _sample(block: LineBlock) -> list[str]:
    """The first lines of a block."""
    lines = block.start(max(_SAMPLE_BYTES, 2 * block.longest)).decode("utf-8", errors="replace").split("\n")
    return lines[: min(_SAMPLE_LINES, max(1, len(lines) - 1))]


def _kind(found: pa.DataType) -> Kind:
    if pa.types.is_integer(found):
        return "integer"
    if pa.types.is_floating(found):
        return "number"
    if pa.types.is_boolean(found):
        return "boolean"
    return "empty" if pa.types.is_null(found) else "text"


def _fits(kind: Kind, wanted: pa.DataType) -> bool:
    if pa.types.is_integer(wanted):
        return kind in ("integer", "empty")
    return kind != "text" or pa.types.is_string(wanted)


class _Places:
    """Line numbers of rows, kept by block; where very many lines were dropped, only the latest blocks' are exact."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._blocks: list[LineBlock] = []
        self._exact_from, self._drops = 0, 0

    def add(self, row: int, block: LineBlock) -> None:
        nothing = pa.py_buffer(b"")
        self._rows.append(row)
        self._blocks.append(LineBlock(nothing, block.count, block.longest, block.first_line, block.dropped))
        self._drops += len(block.dropped)
        while self._drops > _REMEMBERED_DROPS and self._exact_from < len(self._blocks) - 1:
            old = self._blocks[self._exact_from]
            self._drops -= len(old.dropped)
            self._blocks[self._exact_from] = LineBlock(nothing, old.count, 0, old.first_line, old.dropped[:0])
            self._exact_from += 1

    def line(self, row: int) -> str:
        number = int(np.searchsorted(self._rows, row, side="right")) - 1
        line = self._blocks[number].line(row - self._rows[number])
        return f"line {line}" if number >= self._exact_from else f"line {line} or soon after"
