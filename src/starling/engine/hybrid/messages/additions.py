"""What several workers add to a worker's rows: taken as it comes, added in the order of ranks, complete block by block.

Rows are cut into blocks. Each has a counter of the workers that it still waits for; at zero the block is complete, and whatever
needs only its rows may begin (CM-GCN §III-C). Floats are added in one order whoever comes first, so that a run gives the same bits
again: what comes before its turn is kept until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from starling.kernels.rows import add_rows


class Additions:
    """`rows[w]` are the rows of `into` [N, F] that worker w adds to, each once; workers are added in the mapping's order.

    `bounds` are the ends of the blocks, from 0 to N; with none given all rows are one block.
    """

    def __init__(self, into: Tensor, rows: Mapping[int, NDArray[np.int64]], bounds: NDArray[np.int64] | None = None) -> None:
        self._into = into
        self._order = [worker for worker in rows if len(rows[worker])]
        bounds = np.array([0, len(into)]) if bounds is None else bounds
        self._rows = {worker: _Ascending(rows[worker], bounds) for worker in self._order}
        self._waits = np.array([np.diff(self._rows[worker].ends) > 0 for worker in self._order], np.bool_).reshape(
            len(self._order), len(bounds) - 1
        )
        """[workers, blocks]: what was not added yet."""
        self._early: dict[int, Tensor] = {}

    @property
    def counters(self) -> NDArray[np.int64]:
        """How many workers each block waits for."""
        counts: NDArray[np.int64] = self._waits.sum(0)
        return counts

    def untouched(self) -> NDArray[np.int64]:
        """The blocks that are complete now."""
        return np.flatnonzero(~self._waits.any(0))

    def take(self, worker: int, given: Tensor, *, lasting: bool = False) -> NDArray[np.int64]:
        """Add what a worker gives, and what came before and waited for it; the blocks that are complete by that.

        Unless it is `lasting`, the memory of what is given is the caller's again afterwards.
        """
        if worker not in self._rows:
            return np.empty(0, np.int64)
        before = self._waits.any(0)
        self._early[worker] = self._rows[worker].sorted(given.to(self._into.dtype))
        for place, other in enumerate(self._order):
            if other in self._early:
                self._add(place, other)
                if not self._waits[place].any():
                    del self._early[other]
        kept = self._early.get(worker)
        if kept is not None and not lasting and kept.data_ptr() == given.data_ptr():
            self._early[worker] = kept.clone()
        return np.flatnonzero(before & ~self._waits.any(0))

    def take_all(self, coming: Iterator[tuple[int, Tensor]]) -> None:
        """All that is still to come."""
        for worker, given in coming:
            self.take(worker, given)

    def _add(self, place: int, worker: int) -> None:
        """Add to all blocks in which it is this worker's turn."""
        turn = np.flatnonzero(self._waits[place] & ~self._waits[:place].any(0))
        mine, given = self._rows[worker], self._early[worker]
        for first, last in _runs(turn):
            where = slice(mine.ends[first], mine.ends[last + 1])
            add_rows(given[where].numpy(), mine.rows[where], self._into.numpy())
        self._waits[place, turn] = False


class _Ascending:
    """A worker's rows in ascending order, and where each block's begin and end among them."""

    def __init__(self, rows: NDArray[np.int64], bounds: NDArray[np.int64]) -> None:
        self.rows, self._order = rows, None
        if len(bounds) == 2:  # all rows are one block: no order is needed
            self.ends = np.array([0, len(rows)])
            return
        if (rows[1:] < rows[:-1]).any():
            self._order = np.argsort(rows)
            self.rows = rows[self._order]
        self.ends = np.searchsorted(self.rows, bounds)

    def sorted(self, given: Tensor) -> Tensor:
        """What is given for the rows, in their order here."""
        return given if self._order is None else given[self._order]


def _runs(numbers: NDArray[np.int64]) -> Iterator[tuple[Any, Any]]:
    """(first, last) of the runs of consecutive numbers."""
    if len(numbers):
        breaks = np.flatnonzero(np.diff(numbers) > 1)
        yield from zip(numbers[np.append(0, breaks + 1)], numbers[np.append(breaks, len(numbers) - 1)], strict=True)
