"""Fill plans of balanced workers: each batch has a cut, and so features, labels and tables, of its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from starling.engine.features import Features
from starling.engine.fill import FilledBatch
from starling.engine.hybrid.fill import TeamFiller
from starling.engine.hybrid.layers.plan import WorkerPlan
from starling.engine.hybrid.share.source import WorkerSource


@dataclass(frozen=True)
class BalancedFiller(TeamFiller):
    """Fills plans of batches; evaluation is that of the worker's own graph."""

    sources: tuple[WorkerSource, ...] = ()
    mirror_features: tuple[Features, ...] = ()
    raw: bool = False
    """Whether the first layer sums input features as they are, so that mirrors' are read here and not sent."""

    def fill(self, plan: WorkerPlan) -> FilledBatch:
        """The views, features and labels of one step."""
        source = self.sources[plan.batch]
        mirrors = torch.from_numpy(self.mirror_features[plan.batch].all()).to(source.device) if self.raw else None
        filler = TeamFiller(
            source, self.whole, self.seed, self.reuse, mirror_x=mirrors, sending=self.sending, graphs=self.graphs
        )
        return filler.fill(plan)
