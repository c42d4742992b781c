"""The steps and evaluations of link prediction in one process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from starling.engine.fill import FilledBatch, Filler
from starling.infer.layerwise import Inference
from starling.nn.decoders import LinkModel
from starling.plan.links.strategy import LinkStrategy
from starling.train.links.batch import with_pairs
from starling.train.links.scores import OwnScores
from starling.train.metrics import Score
from starling.train.results import Scores
from starling.train.work import Work


@dataclass(frozen=True)
class OwnLinkWork(Work):
    """All of it in this process; `filler` and `inference` know training edges only."""

    strategy: LinkStrategy
    filler: Filler
    inference: Inference
    held_out: OwnScores

    @property
    def steps_per_epoch(self) -> int:
        """How many steps an epoch has."""
        return self.strategy.steps_per_epoch

    def batches(self, epochs: int, after: int = 0) -> Iterator[FilledBatch]:
        """Plans, filled."""
        for epoch in range(after + 1, epochs + 1):
            for plan in self.strategy.plans(epoch):
                yield with_pairs(self.filler.fill(plan.batch), plan.pairs, plan.pairs.edges)

    def scores(self, model: nn.Module, score: Score) -> Scores:
        """The metric on held-out edges, from exact rows of all nodes."""
        assert isinstance(model, LinkModel)
        return self.held_out.of(self.inference.outputs(model.encoder), model.decoder)
