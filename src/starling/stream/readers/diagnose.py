"""Which line is wrong, and why: asked only after a block of lines could not be parsed.

pyarrow says that something is wrong, not always where. So the fields of each line are counted; if all have as many as they
should, the block is parsed with every cell as bytes and each column converted by itself, halving the rows until the one that
fails is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from starling.core.errors import InputError
from starling.stream.readers.dialect import fields
from starling.stream.readers.files import first_line
from starling.stream.readers.lines import Dialect, LineBlock
from starling.stream.readers.source import Column, Want

_SHOWN = 60
_TRUTHS = pa.array(["1", "0", "true", "false", "True", "False", "TRUE", "FALSE", ""])


def explain(
    block: LineBlock,
    dialect: Dialect,
    columns: Sequence[Column],
    wanted: Mapping[int, Want],
    file: str,
    error: Exception,
) -> InputError:
    """The error to raise for a block that could not be parsed: the first line at fault and what is wrong with it."""
    ragged = _ragged(block, dialect, len(columns), file)
    if ragged is not None:
        return ragged
    lines = f"lines {block.line(0)} to {block.line(max(block.count - 1, 0))}"
    unknown = InputError(f"{file} cannot be parsed in {lines}: {first_line(error)}.")
    try:
        cells = _as_bytes(block, dialect, len(columns))
    except pa.ArrowInvalid:
        return unknown
    faults = []
    for index, values in enumerate(cells.columns):
        values = values.combine_chunks()
        want = wanted.get(index)
        if (row := first_failing(values, _to_text)) is not None:
            faults.append((row, f"{file} is not UTF-8 text at line {block.line(row)}. Save it as UTF-8."))
        elif want is not None and (row := first_failing(_to_text(values), _converter(want.type))) is not None:
            got = f"{_shown(values[row].as_py().decode())} at line {block.line(row)} of {file}"
            faults.append((row, f"Expected {want.noun} in {columns[index]}, got {got}. {want.advice}".rstrip()))
    return InputError(min(faults)[1]) if faults else unknown


def _ragged(block: LineBlock, dialect: Dialect, width: int, file: str) -> InputError | None:
    """The sentence about the first line with another number of fields, None where there is none."""
    lines = bytes(block.text).decode("utf-8", errors="replace").split("\n")
    for row, line in enumerate(lines[: block.count]):
        quoted = dialect.quotes and '"' in line
        got = len(fields(line, dialect)) if quoted else line.count(dialect.delimiter) + 1
        if got != width:
            return InputError(
                f"Expected {width} column{'s' if width > 1 else ''}, got {got} at line {block.line(row)} of {file}: "
                f"{_shown(line)}. Give every line the same columns."
            )
    return None


def _as_bytes(block: LineBlock, dialect: Dialect, width: int) -> pa.Table:
    names = [str(index) for index in range(width)]
    return pacsv.read_csv(
        pa.BufferReader(block.text),
        pacsv.ReadOptions(column_names=names, block_size=max(1 << 20, block.longest + 1)),
        pacsv.ParseOptions(delimiter=dialect.delimiter, quote_char='"' if dialect.quotes else False),
        pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary()), strings_can_be_null=False),
    )


def first_failing(values: pa.Array, convert: Callable[[pa.Array], Any]) -> int | None:
    """The first row that `convert` refuses, None when it takes all."""
    if _takes(values, convert):
        return None
    low, high = 0, len(values)  # rows before low are fine, one before high is not
    while high - low > 1:
        middle = (low + high) // 2
        if _takes(values[low:middle], convert):
            low = middle
        else:
            high = middle
    return low


def _takes(values: pa.Array, convert: Callable[[pa.Array], Any]) -> bool:
    try:
        convert(values)
    except pa.ArrowInvalid:
        return False
    return True


def _to_text(values: pa.Array) -> pa.Array:
    return values.cast(pa.string())


def _converter(kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """Converts text as the parser does: blanks around a cell do not matter, an empty one is nothing."""

    def convert(texts: pa.Array) -> pa.Array:
        trimmed = pc.utf8_trim_whitespace(texts)
        if pa.types.is_boolean(kind):
            if not pc.all(pc.is_in(trimmed, value_set=_TRUTHS)).as_py():
                raise pa.ArrowInvalid("not a truth value")
            return trimmed
        return pc.if_else(pc.equal(trimmed, ""), None, trimmed).cast(kind)

    return convert


def _shown(text: str) -> str:
    return f"'{text}'" if len(text) <= _SHOWN else f"'{text[:_SHOWN]}…'"
