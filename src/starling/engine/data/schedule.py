"""The first stage: which targets a worker computes in each step. Nobody is asked: all workers know all training nodes.

With `global` shuffling a step's targets are those of one process, and workers share them. With `local` shuffling every worker
draws from a range of its own, where its part is; a step of all workers together has as many targets, and every node is a target
once an epoch, either way. A worker may have none in a step: it takes part with nothing, and weight zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.engine.data.split import match_ranges, share_bounds
from starling.plan.targets import TargetBatches

Shuffle = Literal["local", "global"]


@dataclass(frozen=True, eq=False)
class Scheduled:
    """A step that is to come: this worker's targets by global id, and how many all workers have."""

    number: int
    """Of the step in the whole run, from 0: its messages are tagged with it."""
    epoch: int
    step: int
    targets: NDArray[np.int64]
    total: int
    sent: Counter[int] = field(default_factory=Counter, kw_only=True)
    """Bytes that went to each worker to schedule it; they count when the step is made."""


@dataclass(frozen=True, eq=False)
class TrainingNodes:
    """All training nodes: global ids, ascending, and their positions in the imported graph. 16 bytes a node."""

    ids: NDArray[np.int64]
    position: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not len(self.ids):
            raise InputError("Expected training nodes, got none. Give the graph a 'train' mask, for instance with --split.")


class Schedule(ABC):
    """Deals out the steps of a run to one worker."""

    steps_per_epoch: int

    @abstractmethod
    def step(self, epoch: int, step: int) -> Scheduled:
        """One step of an epoch (epochs count from 1, steps from 0)."""

    def __call__(self, number: int) -> Scheduled:
        """One step of a run by its number: there is no pause between epochs."""
        return self.step(number // self.steps_per_epoch + 1, number % self.steps_per_epoch)

    def _number(self, epoch: int, step: int) -> int:
        return (epoch - 1) * self.steps_per_epoch + step


class GlobalShuffle(Schedule):
    """The batches of one process; of each, a worker has an equal share, a range of ids."""

    def __init__(
        self, nodes: TrainingNodes, batch_size: int | None, worker: int, workers: int, *, seed: int, shuffle: bool
    ) -> None:
        self._targets = TargetBatches(nodes.position, nodes.ids, batch_size, seed=seed, shuffle=shuffle)
        self._worker, self._workers = worker, workers
        self.steps_per_epoch = self._targets.steps

    def step(self, epoch: int, step: int) -> Scheduled:
        """A share of the step's batch."""
        batch = np.sort(self._targets.batch(epoch, step))
        bounds = share_bounds(len(batch), self._workers)
        mine = batch[bounds[self._worker] : bounds[self._worker + 1]]
        return Scheduled(self._number(epoch, step), epoch, step, mine, len(batch))


class LocalShuffle(Schedule):
    """Batches of an own range of nodes, in a keyed order of its own."""

    def __init__(
        self,
        nodes: TrainingNodes,
        batch_size: int | None,
        worker: int,
        homes: NDArray[np.int64],
        *,
        seed: int,
        shuffle: bool,
    ) -> None:
        workers = len(homes) - 1
        everybody = TargetBatches(nodes.position, nodes.ids, batch_size, seed=seed, shuffle=shuffle)
        self.steps_per_epoch, self._batch, self._count = everybody.steps, everybody.size, len(nodes.ids)
        self._ranges = workers
        bounds = share_bounds(len(nodes.ids), workers)
        self._range = int(match_ranges(nodes.ids, bounds, homes)[worker])
        first, last = bounds[self._range], bounds[self._range + 1]
        self._mine: TargetBatches | None = None
        if last > first:
            ids, position = nodes.ids[first:last], nodes.position[first:last]
            self._mine = TargetBatches(position, ids, int(last - first), seed=seed, shuffle=shuffle)
        self._none: NDArray[Any] = np.empty(0, np.int64)

    def step(self, epoch: int, step: int) -> Scheduled:
        """The next of the own range; every range is through at the end of the epoch."""
        before, after = self._dealt(step), self._dealt(step + 1)
        mine = self._none
        if self._mine is not None:
            mine = self._mine.batch(epoch, 0)[before[self._range] : after[self._range]]
        return Scheduled(self._number(epoch, step), epoch, step, mine, int((after - before).sum()))

    def _dealt(self, step: int) -> NDArray[np.int64]:
        """How many nodes of each range are dealt before a step: of all of them together `step` batches."""
        dealt = min(step * self._batch, self._count)
        return (dealt + np.arange(self._ranges)) // self._ranges


class PartShuffle(Schedule):
    """Batches of a worker's own parts, each part in a keyed order of its own (`--local-only`).

    Parts take turns in proportion to their targets, node k of n of a part at (k + ½) / n of the epoch, and a step is the next B of
    all turns: every step has B targets, and which they are depends on the parts, not on who computes them. 8 bytes an own target.
    """

    def __init__(
        self,
        nodes: TrainingNodes,
        batch_size: int | None,
        offsets: NDArray[np.int64],
        own: range,
        *,
        seed: int,
        shuffle: bool,
    ) -> None:
        everybody = TargetBatches(nodes.position, nodes.ids, batch_size, seed=seed, shuffle=shuffle)
        self.steps_per_epoch, self._batch, self._count = everybody.steps, everybody.size, len(nodes.ids)
        bounds = np.searchsorted(nodes.ids, offsets)
        part = _turns(np.diff(bounds))
        self._parts: list[tuple[TargetBatches, NDArray[np.int64]]] = []
        for number in own:
            first, last = int(bounds[number]), int(bounds[number + 1])
            if last > first:
                ids, position = nodes.ids[first:last], nodes.position[first:last]
                order = TargetBatches(position, ids, last - first, seed=seed, shuffle=shuffle)
                self._parts.append((order, np.flatnonzero(part == number)))

    def step(self, epoch: int, step: int) -> Scheduled:
        """The next of every own part, as many as its turns in this step."""
        first, last = step * self._batch, min((step + 1) * self._batch, self._count)
        mine = [np.empty(0, np.int64)]
        for order, turns in self._parts:
            mine.append(order.batch(epoch, 0)[slice(*np.searchsorted(turns, [first, last]))])
        return Scheduled(self._number(epoch, step), epoch, step, np.concatenate(mine), last - first)


def _turns(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which part each target of an epoch is of: spread evenly, of equal moments the lowest part first [sum of sizes]."""
    part = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(part)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    turns: NDArray[np.int64] = part[np.argsort((within + 0.5) / sizes[part], kind="stable")]
    return turns
