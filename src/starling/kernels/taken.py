"""Neighbour lists of which some entries were taken, read where they lie: of an edge no more is kept than its entry.

As in `mapped.py` ids go through a map, here after one more step: entry → neighbour → place. The way back is a list, made when it is
first asked for: through the graph's transposed lists all that was not taken would be gone over too, and a sample leaves out most.
So sources' lists are put in order by counting, once for all columns: 4 bytes an edge, 8 where edges have values of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.once import made_once
from starling.kernels.adjacency import NO_NUMBERS, NO_ROWS, Adjacency
from starling.kernels.looked_up import Entries, LookedUpLists, ends_of, followed, lengths_of


@dataclass(frozen=True, eq=False)
class TakenLists(LookedUpLists):
    """Row i hears by taken[ends[i] + moved[i]] …, entries of a graph's `neighbours`; an entry may be there more than once.

    All of them have a place among the `columns`, but for lists `from_columns`. An edge's number is its place in `taken`, plus
    shift[i]. Where `moved` or `shift` is empty it is zero.
    """

    ends: NDArray[np.int64]
    taken: NDArray[Any]
    neighbours: NDArray[Any]
    place: NDArray[np.int32]
    columns: int
    scales: NDArray[np.float32] | None = None
    """Of all that was taken, where each makes up for others that were not."""
    moved: NDArray[np.int64] = field(default_factory=NO_ROWS.copy)
    shift: NDArray[np.int64] = field(default_factory=NO_ROWS.copy)
    with_numbers: bool = True
    first: int = 0
    columns_of: TakenLists | None = None
    """The lists of the same rows that have more columns; both are turned as one."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """As they were given."""
        return self.ends

    @property
    def numbered(self) -> bool:
        """Whether they are read."""
        return self.with_numbers

    @cached_property
    def found_in(self) -> Entries:
        """In the graph's lists, through what was taken."""
        return Entries(self.neighbours, self.taken, NO_NUMBERS, self.moved, self.shift)

    @property
    def taken_from(self) -> NDArray[Any]:
        """Of each edge its entry in the graph's lists."""
        return self.taken[self._at]

    @property
    def scale(self) -> NDArray[np.float32] | None:
        """Of each edge."""
        return None if self.scales is None else self.scales[self._at]

    @made_once
    def transposed(self) -> Adjacency:
        """Put in order by counting; of some columns a stretch."""
        if not self.numbered:
            return self.transposed_unnumbered
        return self._listed().transpose() if self.columns_of is None else self._some(self.columns_of.transposed)

    @made_once
    def transposed_unnumbered(self) -> Adjacency:
        """`transposed` for sums whose edges have no values of their own: 4 bytes an edge instead of 8."""
        if self.columns_of is not None:
            return self._some(self.columns_of.transposed_unnumbered)
        if "transposed" in self.__dict__ and self.numbered:
            return self.transposed
        return self._listed().transposed_unnumbered

    def turned_for(self, edge_values: NDArray[Any]) -> Adjacency:
        """The transpose, with edge numbers only where there are values to read by them."""
        return self.transposed if len(edge_values) else self.transposed_unnumbered

    @cached_property
    def by_edge(self) -> Adjacency:
        """The same rows hearing from their edges."""
        numbers = self._numbers if len(self._numbers) else np.arange(self.entries, dtype=self.number_type)
        return Adjacency(self.offsets, numbers, self.entries, self._numbers)

    def excerpt(self, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> TakenLists:
        """Some rows, and all that these hear from, in this order: the edges are numbered anew."""
        some, place = self.of_rows(rows), followed(self.place, self.columns, sources)
        return replace(some, place=place, columns=len(sources), shift=-some.moved)

    def of_rows(self, rows: NDArray[np.int64]) -> TakenLists:
        """Some rows; entries keep their numbers."""
        assert self.columns_of is None, "rows are chosen before columns"
        offsets = ends_of(lengths_of(self.offsets, rows))
        moved = self.offsets[rows] - offsets[:-1] + (self.moved[rows] if len(self.moved) else 0)
        return replace(self, ends=offsets, moved=moved, shift=self.shift[rows] if len(self.shift) else NO_ROWS)

    def some_rows(self, first: int, last: int) -> TakenLists:
        """The rows from `first` to `last` − 1; entries keep their numbers."""
        if self.columns_of is None:
            return self.of_rows(np.arange(first, last))
        rows = self.columns_of.some_rows(first, last)
        return rows.from_columns(self.first, self.first + self.columns, numbered=self.numbered)

    def from_columns(self, first: int, last: int, *, numbered: bool) -> TakenLists:
        """The same rows hearing from the columns `first` to `last` − 1 alone; entries keep their numbers."""
        assert self.columns_of is None, "columns are chosen once"
        return replace(self, first=first, columns=last - first, with_numbers=numbered, columns_of=self)

    @property
    def _numbers(self) -> NDArray[Any]:
        """Of each edge; empty where these follow one another from zero."""
        apart = self.moved + self.shift if len(self.shift) else self.moved
        return self._each(apart).astype(self.number_type) if apart.any() else NO_NUMBERS

    @property
    def _at(self) -> NDArray[np.int64] | slice:
        """Of each edge its place in `taken`."""
        return self._each(self.moved) if len(self.moved) else slice(self.entries)

    def _each(self, moved: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of each edge its number by `offsets`, and as much more as that of its row."""
        return np.arange(self.entries) + np.repeat(moved, np.diff(self.offsets))

    def _listed(self) -> Adjacency:
        """With a list of the neighbours, which is not kept."""
        return Adjacency(self.offsets, self.neighbours_at(slice(None)), self.columns, self._numbers)

    def _some(self, turned: Adjacency) -> Adjacency:
        """Of these columns' lists those that are here."""
        return turned.some_rows(self.first, self.first + self.columns)
