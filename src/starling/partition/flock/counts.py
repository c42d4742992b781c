"""What the annealing knows of every node: how many of its closed neighbourhood are in each part.

A table of bytes [V, p] where p is small, slots for the parts that occur where that is smaller, and slots for only the heaviest
parts where even those exceed the budget (`kernels/partition/anneal.py`, `anneal_slots.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.memory import format_bytes
from starling.kernels.partition.anneal import count_copies, count_rows, sweep_rows
from starling.kernels.partition.anneal_slots import Slots, count_slots, sweep_slots
from starling.kernels.partition.moves import Sweep
from starling.partition.flock.windows import Window

WORTH_A_TABLE = 8
"""A table may be this many times as large as slots."""

LEAST_SLOTS = 4
"""A sketch of fewer parts a node is not worth having."""

_TURNS = 1 << 16  # chunks visited by one call of a kernel
_FIXED = 6  # bytes a node of slots: where they begin, how many are used

LEAST_COUNTS = 3 * LEAST_SLOTS + _FIXED
"""Bytes a node of the smallest sketch."""


class Counts(ABC):
    """Counts that follow every move of a sweep."""

    part: NDArray[np.uint16]
    load: NDArray[np.int64]

    @abstractmethod
    def recount(self, window: Window, threads: int | None) -> None:
        """Count the rows of a window from the parts as they are."""

    def sweep(self, window: Window, weight: NDArray[np.integer], how: Sweep) -> int:
        """One sweep over a window; returns the moves."""
        chunks = -(-window.rows // how.chunk)
        # in turns, between which Ctrl-C is heard
        return sum(self._visit(window, weight, how, turn, min(turn + _TURNS, chunks)) for turn in range(0, chunks, _TURNS))

    @abstractmethod
    def _visit(self, window: Window, weight: NDArray[np.integer], how: Sweep, first: int, last: int) -> int:
        """The chunks whose turn is first … last − 1."""

    @abstractmethod
    def copies(self) -> int:
        """Copies of all nodes in all parts, owned ones included."""


class Table(Counts):
    """One byte for each node and part."""

    def __init__(self, part: NDArray[np.uint16], load: NDArray[np.int64]) -> None:
        self.part, self.load = part, load
        self._cells = np.zeros((len(part), len(load)), np.uint8)

    def recount(self, window: Window, threads: int | None) -> None:
        """Count the rows of a window from the parts as they are."""
        graph = (window.low, window.start, window.neighbour)
        window.over_rows(lambda first, last: count_rows(*graph, self.part, self._cells, first, last), threads)

    def _visit(self, window: Window, weight: NDArray[np.integer], how: Sweep, first: int, last: int) -> int:
        graph = (window.low, window.start, window.neighbour)
        return sweep_rows(*graph, self.part, self._cells, weight, self.load, how, first, last)

    def copies(self) -> int:
        """Copies of all nodes in all parts, owned ones included."""
        return int(count_copies(self._cells))


class Sparse(Counts):
    """Slots, at most `most` a node; exact where no node needs more."""

    def __init__(self, part: NDArray[np.uint16], load: NDArray[np.int64], degree: NDArray[np.int32], most: int) -> None:
        self.part, self.load = part, load
        room = _room(degree, min(most, len(load)))
        total = int(room.sum(dtype=np.int64))
        slot: NDArray[np.integer] = np.zeros(len(part) + 1, np.int32 if total < 1 << 31 else np.int64)
        np.cumsum(room, out=slot[1:])
        name: NDArray[np.integer] = np.zeros(total, np.uint8 if len(load) <= 256 else np.uint16)
        self._slots = Slots(slot, np.zeros(len(part), np.uint16), name, np.zeros(total, np.uint8))

    def recount(self, window: Window, threads: int | None) -> None:
        """Count the rows of a window from the parts as they are."""
        graph = (window.low, window.start, window.neighbour)
        parts = len(self.load)
        window.over_rows(lambda first, last: count_slots(*graph, self.part, self._slots, parts, first, last), threads)

    def _visit(self, window: Window, weight: NDArray[np.integer], how: Sweep, first: int, last: int) -> int:
        graph = (window.low, window.start, window.neighbour)
        return sweep_slots(*graph, self.part, self._slots, weight, self.load, how, first, last)

    def copies(self) -> int:
        """Copies of all nodes in all parts, owned ones included; of a sketch, those it holds."""
        return int(self._slots.used.sum(dtype=np.int64))


def _room(degree: NDArray[np.int32], most: int) -> NDArray[np.int32]:
    return np.minimum(degree, most - 1) + np.int32(1)


def slots_that_fit(degree: NDArray[np.int32], parts: int, budget: int) -> int | None:
    """None for a table [V, p]; else the most slots a node, `parts` where rows are exact.

    The table is several times faster, since a row of it is one vector, so slots must be far smaller, or the table not fit.
    """
    nodes, label = len(degree), 2 if parts <= 256 else 3

    def slot_bytes(most: int) -> int:
        return label * int(_room(degree, most).sum(dtype=np.int64)) + _FIXED * nodes

    table, exact = nodes * parts, slot_bytes(parts)
    if table <= min(budget, WORTH_A_TABLE * exact):
        return None
    if exact <= budget:
        return parts
    if table <= budget:
        return None
    most = parts // 2
    while most >= LEAST_SLOTS and slot_bytes(most) > budget:
        most //= 2
    if most < LEAST_SLOTS:
        raise InputError(
            f"flock needs {format_bytes(slot_bytes(LEAST_SLOTS))} for its counts, and {format_bytes(budget)} of --memory are "
            "left for them. Raise --memory, or use --method restream."
        )
    return most
