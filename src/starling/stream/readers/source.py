"""A file of columns, text or Parquet, as edges and node tables see it: what the columns are, and their values in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from starling.core.errors import InputError

Kind = Literal["integer", "number", "boolean", "text", "moment", "list", "empty", "other"]
"""What a column holds: whole numbers, numbers, true/false, text, dates and times, a list in each cell, nothing, or else."""

NUMERIC: tuple[Kind, ...] = ("integer", "number", "boolean")

Batch = dict[int, pa.Array]
"""Consecutive rows: the values of the columns asked for, by column number."""


@dataclass(frozen=True)
class Column:
    """One column: its place from 0, its name (the place, where there is no header), and what it holds.

    `kind` is what all cells seen so far have in common, `first` what the first of them is.
    """

    index: int
    name: str
    kind: Kind
    first: Kind

    def __str__(self) -> str:
        return f"column '{self.name}'" if self.name != str(self.index) else f"column {self.index} (counted from 0)"


@dataclass(frozen=True)
class Want:
    """The type a column is to be converted to, and what to advise when a cell cannot be."""

    type: pa.DataType
    advice: str = ""

    @property
    def noun(self) -> str:
        """What such a cell is called in messages."""
        if pa.types.is_integer(self.type):
            return "a whole number"
        if pa.types.is_floating(self.type):
            return "a number"
        return "true or false" if pa.types.is_boolean(self.type) else "text"


class ColumnSource(ABC):
    """Named columns of one file, read once, in order."""

    name: str
    columns: tuple[Column, ...]
    named: bool
    """Whether the file names its columns."""
    rows: int | None = None
    total_bytes: int | None = None
    bytes_read: int = 0

    @abstractmethod
    def check(self, wanted: Mapping[int, Want]) -> None:
        """Refuse at once what can be seen already not to fit."""

    @abstractmethod
    def batches(self, wanted: Mapping[int, Want]) -> Iterator[Batch]:
        """The columns asked for, converted to the types asked for, some rows at a time.

        A cell that cannot be converted is an `InputError` naming its place; an empty cell is null.
        """

    @abstractmethod
    def place(self, row: int) -> str:
        """Where a row stands: "line 17 of edges.csv"."""

    def refuse(self, row: int, column: int, expected: str, got: str, advice: str = "") -> NoReturn:
        """Say what is wrong with a cell."""
        sentence = f"Expected {expected} in {self.columns[column]}, got {got} at {self.place(row)}."
        raise InputError(f"{sentence} {advice}".rstrip())

    def filled(self, batch: Batch, start: int, column: int, expected: str) -> pa.Array:
        """The values of a column in a batch whose first row is `start`; refuses an empty cell."""
        values = batch[column]
        if values.null_count:
            row = pc.index(values.is_null(), True).as_py()
            self.refuse(start + row, column, expected, "an empty cell")
        return values
