"""`global`: every step computes the whole graph, one step an epoch."""

from __future__ import annotations

import numpy as np

from starling.kernels.csr import index_type
from starling.plan.batch import BatchPlan, Block
from starling.plan.strategy import PlanTask, Strategy


class Global(Strategy):
    """One block, all in-edges, stands for every layer; its arrays are those of the graph, nothing is copied."""

    name = "global"
    summary = "the whole graph in every step"

    def __init__(self, settings: Strategy.Settings, task: PlanTask) -> None:
        super().__init__(settings, task)
        lists = task.graph.incoming
        entry = np.arange(len(lists.neighbours), dtype=index_type(len(lists.neighbours)))
        self._block = Block(lists.offsets, lists.neighbours.astype(np.int32, copy=False), entry, task.graph.rows)
        self._inputs = np.arange(task.graph.rows, dtype=self.train_rows.dtype)

    @property
    def steps_per_epoch(self) -> int:
        """One."""
        return 1

    def _plan(self, epoch: int, step: int) -> BatchPlan:
        blocks = (self._block,) * self.task.layers
        return BatchPlan(epoch, step, self._inputs, blocks, self.train_rows, self.train_rows)
