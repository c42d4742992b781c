"""What a strategy is: it deals out the steps of an epoch, each a `BatchPlan`.

A plan is a pure function of (seed, epoch, step), so steps can be made in any order, on any thread, or again after a restart. To
add a strategy, write such a class and enter it in `registry.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from starling.core.errors import InputError
from starling.kernels.degrees import check_nodes
from starling.plan.batch import BatchPlan
from starling.plan.source import NeighbourSource


@dataclass(frozen=True, eq=False)
class PlanTask:
    """What every strategy is given: a graph, the rows to train on, the layers to plan for, and the seed of all choices.

    `clusters` [rows] is the cluster of every row, −1 for rows without one; only the cluster strategy reads it.
    """

    graph: NeighbourSource
    train_rows: NDArray[Any]
    layers: int
    seed: int = 0
    threads: int | None = None
    clusters: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if self.layers < 1:
            raise InputError(f"Expected at least one layer, got {self.layers}.")
        if not len(self.train_rows):
            raise InputError("Expected training nodes, got none. Give the graph a 'train' mask, for instance with --split.")
        check_nodes(self.train_rows, self.graph.incoming.rows)
        ordered = np.sort(self.train_rows)
        if (twice := np.flatnonzero(ordered[1:] == ordered[:-1])).size:
            raise InputError(f"Expected every training node once, got row {ordered[twice[0]]:,} twice.")


class Strategy(ABC):
    """Which nodes form a step. `plan` checks and `_plan` works."""

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""

    class Settings(BaseModel):
        """Settings of the strategy, each with its description; unknown ones are refused."""

        model_config = ConfigDict(extra="forbid", frozen=True)

    settings: Settings

    def __init__(self, settings: Settings, task: PlanTask) -> None:
        self.settings, self.task = settings, task
        # numbers of nodes as the neighbour lists have them, so that kernels meet one type
        self.train_rows = np.ascontiguousarray(task.train_rows, task.graph.incoming.neighbours.dtype)

    @property
    @abstractmethod
    def steps_per_epoch(self) -> int:
        """How many plans an epoch has, the same in every epoch."""

    @final
    def plan(self, epoch: int, step: int) -> BatchPlan:
        """One step of an epoch; safe to call from several threads."""
        if not 0 <= step < self.steps_per_epoch:
            raise InputError(f"Expected a step from 0 to {self.steps_per_epoch - 1}, got {step}.")
        return self._plan(epoch, step)

    @final
    def plans(self, epoch: int, first_step: int = 0) -> Iterator[BatchPlan]:
        """The steps of an epoch in order, each made when it is asked for."""
        for step in range(first_step, self.steps_per_epoch):
            yield self._plan(epoch, step)

    @abstractmethod
    def _plan(self, epoch: int, step: int) -> BatchPlan: ...
