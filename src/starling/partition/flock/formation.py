"""Nodes standing in flock order: every later phase numbers them by their place in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from starling.partition.contract import PartitionTask
from starling.partition.flock.flocks import ONES, find_flocks
from starling.partition.flock.windows import Windows

Whole = TypeVar("Whole", bound=np.integer)


@dataclass(frozen=True)
class Formation:
    """Node v stands at ``place[v]``. By place: `degree`, an upper bound on neighbours; `weight`, empty where it is 1.

    Flock c stands at places ``first[c]`` … ``first[c + 1] − 1``. It took `passes` of the stream.
    """

    place: NDArray[np.int32]
    degree: NDArray[np.int32]
    weight: NDArray[np.integer]
    first: NDArray[np.int64]
    passes: int

    @property
    def flocks(self) -> int:
        """How many there are."""
        return len(self.first) - 1

    def sizes(self) -> NDArray[np.int64]:
        """How many nodes each flock has."""
        return np.diff(self.first)

    def flock(self) -> NDArray[np.int32]:
        """The flock at each place; made anew each time, since later phases must not hold it."""
        return np.repeat(np.arange(self.flocks, dtype=np.int32), self.sizes())

    def masses(self) -> NDArray[np.int64]:
        """What each flock weighs."""
        return np.add.reduceat(self.weight.astype(np.int64), self.first[:-1]) if len(self.weight) else self.sizes()

    def loads(self, part: NDArray[np.uint16], parts: int) -> NDArray[np.int64]:
        """What each part weighs, when places belong to these parts."""
        return np.bincount(part, self.weight if len(self.weight) else None, minlength=parts).astype(np.int64)


def fall_in(task: PartitionTask, degree: NDArray[np.int32], largest_flock: int, window_entries: int) -> Formation:
    """Find flocks and let the nodes stand in their order."""
    windows = Windows(task, degree, None, window_entries, what="gathering neighbours")
    flocks = find_flocks(windows, len(degree), largest_flock, task.seed)
    windows.close()
    place, first = flocks.order()
    return Formation(
        place=place,
        degree=_by_place(degree, place),
        weight=ONES if task.node_load is None else _by_place(task.node_load, place),
        first=first,
        passes=windows.passes,
    )


def _by_place(values: NDArray[Whole], place: NDArray[np.int32]) -> NDArray[Whole]:
    arranged = np.empty_like(values)
    arranged[place] = values
    return arranged
