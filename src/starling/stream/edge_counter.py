"""The different edges of one bucket, how often each came in both directions, and what that means for each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from starling.kernels.edge_records import count_edges, find_edges, judge_edges


@dataclass(frozen=True)
class Rules:
    """What to do to the edges. Self-loops are dropped before repeats are; a self-loop is its own reverse.

    Of edges with equal source, destination and type the first is kept. A reverse of the same type is added directly behind
    an edge that has none of its own: the k-th copy of an edge, where the input has fewer than k copies of its reverse. None
    is added where all edges together are symmetric already, types aside: there the reverse of a type is another type.
    """

    drop_loops: bool = False
    drop_repeats: bool = False
    add_reverses: bool = False

    @property
    def change_anything(self) -> bool:
        """Whether any edge can be dropped or added."""
        return self.drop_loops or self.drop_repeats or self.add_reverses


@dataclass(frozen=True)
class Verdicts:
    """What becomes of each edge of a block (kernels/edge_records.py), repeats dropped and reverses added."""

    verdict: NDArray[np.uint8]
    dropped: int
    added: int


class EdgeCounter:
    """Counts records of edges; then, shown the same records again from the first, judges them.

    Costs 8 bytes a word of the record and 16 more for each different edge, twice for a table at most half full.
    """

    def __init__(self, words: int, expected: int) -> None:
        self._different = 0
        self._table = np.zeros((2 * max(expected, 8), words), np.uint64)
        self._counts = np.zeros(len(self._table), np.uint64)
        self._passed: NDArray[np.uint64] | None = None

    def count(self, records: NDArray[np.uint64]) -> int:
        """Count a block of records; returns how many are repeats of ones counted before."""
        self._make_room(len(records))
        slots = np.empty(len(records), np.int64)
        self._different += find_edges(records, self._table, slots)
        return count_edges(records, slots, self._counts)

    def judge(self, records: NDArray[np.uint64], rules: Rules) -> Verdicts:
        """Decide about a block of records, all of which have been counted."""
        if self._passed is None:
            self._passed = np.zeros_like(self._counts)
        slots = np.empty(len(records), np.int64)
        find_edges(records, self._table, slots)
        verdict = np.empty(len(records), np.uint8)
        dropped, added = judge_edges(
            records, slots, self._counts, self._passed, rules.drop_loops, rules.drop_repeats, rules.add_reverses, verdict
        )
        return Verdicts(verdict, dropped, added)

    def _make_room(self, more: int) -> None:
        if 2 * (self._different + more) <= len(self._table):
            return
        taken = self._table[:, 0] != 0
        old, old_counts = self._table[taken], self._counts[taken]
        self._table = np.zeros((2 * max(len(self._table), self._different + more), self._table.shape[1]), np.uint64)
        self._counts = np.zeros(len(self._table), np.uint64)
        slots = np.empty(len(old), np.int64)
        find_edges(old, self._table, slots)
        self._counts[slots] = old_counts
