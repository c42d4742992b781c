"""A strategy of one's own: starling train GRAPH --strategy examples/waves_strategy.py:Waves --set strategy.waves=3

A strategy deals out the steps of an epoch; a step is a `BatchPlan`, and a pure function of (seed, epoch, step).
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from starling.plan.batch import BatchPlan
from starling.plan.whole import Global


class Waves(Global):
    """Every step computes the whole graph, but learns from one wave of the training nodes."""

    summary = "the whole graph, some training nodes a step"

    class Settings(Global.Settings):
        """How many steps an epoch has."""

        waves: int = Field(4, ge=1, description="steps an epoch")

    settings: Settings

    @property
    def steps_per_epoch(self) -> int:
        """One a wave."""
        return self.settings.waves

    def _plan(self, epoch: int, step: int) -> BatchPlan:
        rows = self.train_rows[step :: self.settings.waves]
        return replace(super()._plan(epoch, step), targets=rows, outputs=rows)
