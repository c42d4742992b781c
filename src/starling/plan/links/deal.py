"""Which training edges are the targets of a step, known to everyone without a list.

An edge is a target of step t when a number drawn for its *pair* falls into the t-th of as many intervals as an epoch has steps. The
pair are its ends' positions in the imported graph, the smaller first: an edge, its repeats and its reverse are targets of the same
step. So whether an edge must be left out of a step's messages is a pure function of (seed, epoch, pair), which any worker can
answer for any edge it meets, and a target never leaks through its reverse. Steps have `batch` targets on average, not exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw_unit, stream_key
from starling.kernels.csr import Csr
from starling.kernels.parallel import parallel_for, worthwhile_threads


@dataclass(frozen=True)
class Deal:
    """How pairs are dealt out: over `steps` steps an epoch, of which only a `share` of all pairs is a target in any."""

    seed: int
    steps: int
    share: float = 1.0

    def key(self, epoch: int) -> np.uint64:
        """The key of an epoch's draws."""
        return stream_key(self.seed, "links/deal", epoch)


@dataclass(eq=False)
class DealtEdges:
    """The edges of neighbour lists by the step that has them as targets; `position` [rows] is each row's place in the graph.

    An epoch takes one pass over the lists, and 12 bytes an edge while it lasts.
    """

    deal: Deal
    lists: Csr
    position: NDArray[Any]
    threads: int | None = None
    _kept: tuple[int, NDArray[np.int64], NDArray[np.int64]] | None = field(default=None, init=False, repr=False)

    def entries(self, epoch: int, step: int) -> NDArray[np.int64]:
        """The entries of the lists that are targets of a step, ascending."""
        kept = self._kept  # read once: another thread may be a step into the next epoch
        if kept is None or kept[0] != epoch:
            kept = self._kept = (epoch, *self._dealt(epoch))
        _, order, bounds = kept
        return order[bounds[step] : bounds[step + 1]]

    def sizes(self, epoch: int) -> NDArray[np.int64]:
        """How many targets each step of an epoch has."""
        self.entries(epoch, 0)
        kept = self._kept
        return np.diff(kept[2] if kept is not None and kept[0] == epoch else self._dealt(epoch)[1])

    def _dealt(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Entries in the order of their steps, and where each step's begin; entries that are no targets are left out."""
        lists, deal = self.lists, self.deal
        step = np.empty(len(lists.neighbours), np.int32)
        parallel_for(
            lists.rows,
            lambda start, stop: _find_steps(
                lists.offsets, lists.neighbours, self.position, deal.key(epoch), deal.steps, deal.share, step, start, stop
            ),
            worthwhile_threads(len(step), self.threads),
            offsets=lists.offsets,
        )
        order = np.argsort(step, kind="stable")
        bounds = np.searchsorted(step[order], np.arange(deal.steps + 1))
        return order, bounds


def destinations_of(lists: Csr, entries: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row whose list each entry is in."""
    return np.searchsorted(lists.offsets, entries, side="right") - 1


@compiled
def step_of_pair(key: np.uint64, one: int, other: int, steps: int, share: float) -> int:
    """The step that has this pair as a target, or `steps` where none has in this epoch."""
    low, high = (one, other) if one < other else (other, one)
    step = int(draw_unit(key, low, high) * steps / share)
    return min(step, steps)


@compiled
def _find_steps(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    position: NDArray[Any],
    key: np.uint64,
    steps: int,
    share: float,
    out: NDArray[np.int32],
    start: int,
    stop: int,
) -> None:
    for row in range(start, stop):
        here = position[row]
        for k in range(offsets[row], offsets[row + 1]):
            out[k] = step_of_pair(key, here, position[neighbours[k]], steps, share)
