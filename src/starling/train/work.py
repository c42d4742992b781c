"""What a run computes, step by step and at each evaluation: alone on the whole graph, or as one worker of a team."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from torch import nn

from starling.engine.fill import FilledBatch, Filler
from starling.engine.hybrid.planning.steps import TeamStrategy
from starling.engine.source import SPLITS, GraphSource
from starling.infer.layerwise import Inference
from starling.infer.timed import PastInference
from starling.plan.background import Background
from starling.plan.strategy import Strategy
from starling.train.metrics import Score
from starling.train.results import Scores, WorkerRecord
from starling.train.team_evaluation import TeamEvaluation


class Work(Protocol):
    """The steps of a run and its evaluations."""

    @property
    def steps_per_epoch(self) -> int:
        """How many steps an epoch has."""

    def batches(self, epochs: int, after: int = 0) -> Iterator[FilledBatch]:
        """The filled batches of all epochs in one stream, so that the next epoch's first is ready when this one ends.

        Epochs up to `after` are done: a run that goes on begins with the next.
        """

    def prepared(self, epochs: int, after: int = 0) -> AbstractContextManager[Iterator[FilledBatch]]:
        """The same batches, prepared in the background for as long as the block lasts."""
        return Background(self.batches(epochs, after), stage="preparing batches")

    def with_stages(self, workers: tuple[WorkerRecord, ...], epoch: int) -> tuple[WorkerRecord, ...]:
        """Accounts of all workers with those of the stages that prepared their batches, where there are such."""
        return workers

    def scores(self, model: nn.Module, score: Score) -> Scores:
        """The metric on each split, from exact outputs."""


@dataclass(frozen=True)
class OwnWork(Work):
    """All of it in this process."""

    source: GraphSource
    strategy: Strategy
    filler: Filler
    inference: Inference | PastInference

    @property
    def steps_per_epoch(self) -> int:
        """How many steps an epoch has."""
        return self.strategy.steps_per_epoch

    def batches(self, epochs: int, after: int = 0) -> Iterator[FilledBatch]:
        """Plans, filled."""
        for epoch in range(after + 1, epochs + 1):
            for plan in self.strategy.plans(epoch):
                yield self.filler.fill(plan)

    def scores(self, model: nn.Module, score: Score) -> Scores:
        """From exact inference, layer by layer."""
        source = self.source
        assert source.y is not None, "a task checks that there are labels"
        outputs, y = self.inference.outputs(model), source.y
        nobody = y[:0]
        return Scores(*(score.of(outputs, y, source.splits.get(name, nobody)) for name in SPLITS))


@dataclass(frozen=True)
class TeamWork(Work):
    """One worker's share; `whole` evaluates."""

    whole: TeamEvaluation
    strategy: TeamStrategy

    @property
    def steps_per_epoch(self) -> int:
        """How many steps an epoch has."""
        return self.strategy.steps_per_epoch

    def batches(self, epochs: int, after: int = 0) -> Iterator[FilledBatch]:
        """Plans, made together with the others, filled; what they sent for it counts when the step is made."""
        ledger = self.whole.source.team.ledger
        for epoch in range(after + 1, epochs + 1):
            for step in range(self.steps_per_epoch):
                with ledger.behind(), ledger.apart() as sent:
                    batch = self.whole.filler.fill(self.strategy.plan(epoch, step))
                yield replace(batch, sent=sent)

    def scores(self, model: nn.Module, score: Score) -> Scores:
        """From one pass over the whole graph."""
        return self.whole.scores(model, score)
