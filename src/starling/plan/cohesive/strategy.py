"""`cohesive`: fixed batches of targets that share neighbours, each with all its neighbours (CM-GCN)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import Field

from starling.core.errors import InputError
from starling.plan.batch import BatchPlan
from starling.plan.cohesive.batches import CohesiveBatches
from starling.plan.cohesive.kept import KEPT_BYTES, KeptPlans, kept_bytes
from starling.plan.hops import AllNeighbours
from starling.plan.mini import TargetSteps
from starling.plan.strategy import PlanTask, Strategy


class Cohesive(TargetSteps):
    """Batches found once (`find.py`), in a new keyed order each epoch; every training node is a target once an epoch."""

    name = "cohesive"
    summary = "batches of targets that share neighbours, with all of these"

    class Settings(Strategy.Settings):
        """How many batches, and how they are found."""

        batches: int | None = Field(None, ge=1, description="batches an epoch (about 1024 targets in each)")
        start: str = Field("metis", description="how the parts are cut that batches start from: metis, flock or another method")
        passes: int = Field(30, ge=0, description="warm passes of moves that lower the cost; 0 leaves the parts as they are")
        tolerance: float = Field(0.1, ge=0, le=1, description="how far batches may be from equal size, as a share of it")
        targets: Literal["train", "all"] = Field(
            "train", description="what is grouped: the training nodes, or all nodes as the paper does"
        )
        costs: Literal["paper", "measured"] = Field(
            "paper", description="constants of the cost: the paper's, the same everywhere, or those of starling calibrate"
        )
        regroup_every: int = Field(
            0, ge=0, description="epochs after which clusters change places; 0 keeps batches as they are"
        )
        clusters_per_batch: int = Field(8, ge=1, description="clusters of a batch, with regroup_every")
        keep: int = Field(
            KEPT_BYTES, ge=0, description="bytes for plans of batches, which are the same every epoch; 0 plans anew each time"
        )

    settings: Settings

    def __init__(self, settings: Settings, task: PlanTask) -> None:
        labels, graph = task.clusters, task.graph
        if labels is None or labels.shape != (graph.rows,):
            got = "none" if labels is None else f"an array of shape {labels.shape}"
            raise InputError(f"Cohesive batches need the label of each of {graph.rows:,} rows, got {got}.")
        rows = np.ascontiguousarray(task.train_rows, graph.incoming.neighbours.dtype)
        self._batches = CohesiveBatches(
            graph.positions_of(rows),
            rows,
            labels[rows],
            settings.clusters_per_batch,
            seed=task.seed,
            regroup_every=settings.regroup_every,
        )
        super().__init__(settings, task, (AllNeighbours(graph, task.threads),) * task.layers, self._batches)
        self._kept = KeptPlans(settings.keep, _plan_bytes)

    def _plan(self, epoch: int, step: int) -> BatchPlan:
        number, grouping = self._batches.number(epoch, step), self._batches.grouping(epoch)
        plan = self._kept.plan(grouping, number, lambda: super(Cohesive, self)._plan(epoch, step))
        return replace(plan, epoch=epoch, step=step)


def _plan_bytes(plan: BatchPlan) -> float:
    return sum(kept_bytes(len(block.neighbours), block.sources) for block in plan.blocks)
