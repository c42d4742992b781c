"""Cells as the importer takes them: ids, numbers, labels, masks and splits out of a batch of columns."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from starling.stream.raw import IdKind, Ids
from starling.stream.readers.rows import to_float32
from starling.stream.readers.source import Batch, Column, ColumnSource, Kind, Want

_TRAIN, _VAL, _TEST = ("train", "training"), ("val", "valid", "validation", "dev"), ("test", "testing")
SPLITS = {"train": _TRAIN, "val": _VAL, "test": _TEST}
_SPLIT_NUMBER = {word: number for number, words in enumerate(SPLITS.values()) for word in words}
_IDS_ADVICE = "The ids before it are whole numbers; if node ids are text, pass --ids string."


def want_ids(kind: IdKind) -> Want:
    """Ids as 64-bit whole numbers or as text."""
    return Want(pa.int64(), _IDS_ADVICE) if kind == "integer" else Want(pa.string())


def id_kind_of(column: Column) -> IdKind:
    """The kind of ids in a column, told by its first cell: so it depends on nothing but the file."""
    return "integer" if column.first in ("integer", "empty") else "string"


def want_number(column: Column, advice: str = "") -> Want:
    """Numbers to compute with, float32; true and false are 1 and 0."""
    return Want(pa.bool_() if column.kind == "boolean" else pa.float32(), advice)


def want_code(column: Column) -> Want:
    """Types and splits: whole numbers, or names."""
    return Want(pa.string() if column.kind in ("text", "boolean") else pa.int64())


def want_time(column: Column) -> Want:
    """Times: whole numbers keep all their digits, others are float64."""
    return Want(pa.int64() if column.kind in ("integer", "moment", "empty") else pa.float64())


def want_label(column: Column) -> Want:
    """Labels: classes by number or by name, or real numbers."""
    kinds: dict[Kind, pa.DataType] = {"text": pa.string(), "boolean": pa.bool_(), "number": pa.float32(), "list": pa.float32()}
    return Want(kinds.get(column.kind, pa.int64()))


def ids(source: ColumnSource, batch: Batch, start: int, column: int) -> Ids:
    """User ids, none of them empty."""
    return _array(source.filled(batch, start, column, "a node id"))


def numbers(source: ColumnSource, batch: Batch, start: int, column: int) -> NDArray[np.float32]:
    """One number a row, none empty."""
    return to_float32(np.asarray(_array(source.filled(batch, start, column, "a number"))))


def times(source: ColumnSource, batch: Batch, start: int, column: int) -> NDArray[Any]:
    """One time a row, none empty, int64 or float64."""
    return _array(source.filled(batch, start, column, "a number"))  # type: ignore[no-any-return]


def codes(source: ColumnSource, batch: Batch, start: int, column: int) -> Any:
    """Types: numbers, or names in a pyarrow array."""
    return _array(source.filled(batch, start, column, "a type"))


def matrix(
    source: ColumnSource, batch: Batch, start: int, columns: Sequence[int], widths: dict[int, int]
) -> NDArray[np.float32]:
    """Columns of numbers, or of lists of numbers, side by side as float32 [rows, width]; refuses empty cells.

    All lists of a column must be as long as the first: `widths` remembers that from batch to batch.
    """
    places = [_lists(source, batch, start, column, widths) if is_list(batch[column]) else column for column in columns]
    width = sum(1 if isinstance(place, int) else place.shape[1] for place in places)
    rows = np.empty((len(batch[columns[0]]), width), np.float32)
    at = 0
    for place in places:
        if isinstance(place, int):
            rows[:, at] = numbers(source, batch, start, place)
            at += 1
        else:
            rows[:, at : at + place.shape[1]] = place
            at += place.shape[1]
    return rows


def _lists(source: ColumnSource, batch: Batch, start: int, column: int, widths: dict[int, int]) -> NDArray[np.float32]:
    lists = source.filled(batch, start, column, "a list of numbers")
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    width = widths.setdefault(column, int(lengths[0]) if len(lengths) else 0)
    wrong = np.flatnonzero(lengths != width)
    if len(wrong):
        source.refuse(start + int(wrong[0]), column, f"{width} numbers", f"{lengths[wrong[0]]}")
    flat = lists.flatten()
    if flat.null_count:
        row = pc.index(flat.is_null(), True).as_py() // width
        source.refuse(start + row, column, f"{width} numbers", "an empty one among them")
    return to_float32(flat.to_numpy(zero_copy_only=False)).reshape(len(lists), width)


def labels(source: ColumnSource, batch: Batch, start: int, columns: Sequence[int], widths: dict[int, int]) -> Any:
    """Labels: one a row, an empty cell meaning none (-1, NaN or null); or a row of 0 and 1, one a class; or of real numbers."""
    first = batch[columns[0]]
    if len(columns) == 1 and not is_list(first):
        return _label(first)
    rows = matrix(source, batch, start, columns, widths)
    wrong = np.argwhere((rows != 0) & (rows != 1))
    if len(wrong) and (any(source.columns[column].kind == "number" for column in columns) or (rows != np.floor(rows)).any()):
        return rows
    if len(wrong):
        row, place = wrong[0].tolist()
        column = columns[0] if is_list(first) else columns[place]
        source.refuse(start + row, column, "0 or 1 (a column a class)", f"{rows[row, place]:g}")
    return rows.astype(np.uint8)


def is_list(values: pa.Array) -> bool:
    """Whether each cell is a list of numbers."""
    return bool(pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type))


def _label(values: pa.Array) -> Any:
    if pa.types.is_string(values.type):
        return values
    if pa.types.is_floating(values.type):
        return _array(values.fill_null(float("nan")))
    return _array(values.cast(pa.int64()).fill_null(-1))


def mask(values: pa.Array) -> NDArray[np.bool_]:
    """Membership in a split; an empty cell is no."""
    return _array(values.fill_null(False))  # type: ignore[no-any-return]


def _array(values: pa.Array) -> Any:
    """Numbers as a NumPy array of their own (a view of pyarrow's memory would be read-only); text as it is."""
    return values if pa.types.is_string(values.type) else np.array(values.to_numpy(zero_copy_only=False))


def split_masks(source: ColumnSource, batch: Batch, start: int, column: int) -> dict[str, NDArray[np.bool_]]:
    """Three masks out of a column of words; a word that is no split means none, unless it looks like a slip of the pen."""
    words = pc.utf8_lower(pc.utf8_trim_whitespace(batch[column].fill_null("")))
    for word in pc.unique(words).to_pylist():
        close = difflib.get_close_matches(word, _SPLIT_NUMBER, n=1, cutoff=0.75)
        if close and word not in _SPLIT_NUMBER:
            row = pc.index(words, word).as_py()
            source.refuse(start + row, column, "train, val or test", f"'{word}'", f"Did you mean '{close[0]}'?")
    return {name: mask(pc.is_in(words, value_set=pa.array(known))) for name, known in SPLITS.items()}


def edge_splits(source: ColumnSource, batch: Batch, start: int, column: int) -> NDArray[np.uint8]:
    """The split of each edge, 0 train, 1 val, 2 test, out of these numbers or words."""
    values = source.filled(batch, start, column, "train, val or test")
    if pa.types.is_string(values.type):
        known = pa.array(_SPLIT_NUMBER)
        place = pc.index_in(pc.utf8_lower(pc.utf8_trim_whitespace(values)), value_set=known).fill_null(-1).to_numpy()
        found = np.append(np.array(list(_SPLIT_NUMBER.values())), -1)[place]
    else:
        found = values.to_numpy()
    wrong = np.flatnonzero((found < 0) | (found > 2))
    if len(wrong):
        source.refuse(start + int(wrong[0]), column, "train, val or test (or 0, 1, 2)", f"'{values[wrong[0]].as_py()}'")
    return np.asarray(found, np.uint8)
