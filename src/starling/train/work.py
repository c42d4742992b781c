"""What a run computes, step by step and at each evaluation: alone on the whole graph, or as one worker of a team."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor, nn

from starling.comm.tags import Channel
from starling.engine.fill import FilledBatch, Filler
from starling.engine.hybrid.fill import TeamFiller
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.planning.strategies import TeamStrategy
from starling.engine.hybrid.share.source import WorkerSource
from starling.engine.source import SPLITS, GraphSource
from starling.infer.layerwise import Inference
from starling.infer.timed import PastInference
from starling.nn.model import LayeredModel
from starling.nn.view import View
from starling.plan.background import Background
from starling.plan.strategy import Strategy
from starling.train.metrics import Score
from starling.train.results import Scores, WorkerRecord

_SCORING = 1 << 12
"""Messages of an evaluation from this number on belong to its scores."""


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


@dataclass
class TeamWork(Work):
    """One worker's share."""

    source: WorkerSource
    strategy: TeamStrategy
    filler: TeamFiller
    layers: int
    _evaluations: int = field(default=0, init=False)

    @property
    def steps_per_epoch(self) -> int:
        """How many steps an epoch has."""
        return self.strategy.steps_per_epoch

    def batches(self, epochs: int, after: int = 0) -> Iterator[FilledBatch]:
        """Plans, made together with the others, filled; what they sent for it counts when the step is made."""
        ledger = self.source.team.ledger
        for epoch in range(after + 1, epochs + 1):
            for step in range(self.steps_per_epoch):
                with ledger.behind(), ledger.apart() as sent:
                    batch = self.filler.fill(self.strategy.plan(epoch, step))
                yield replace(batch, sent=sent)

    def scores(self, model: nn.Module, score: Score) -> Scores:
        """From one pass over the whole graph, each worker its own nodes; the same numbers on every worker."""
        source, team = self.source, self.source.team
        assert source.y is not None, "a task checks that there are labels"
        given = self.outputs(model).cpu()
        calls = Calls(self._evaluations, Channel.EVALUATE, _SCORING)
        found = []
        for name in SPLITS:
            rows = torch.from_numpy(source.splits.get(name, source.graph.position[:0]))
            found.append(score.over_team(team, calls, given[rows], torch.from_numpy(source.y)[rows]))
        return Scores(*found)

    @property
    def evaluations(self) -> int:
        """How many there were: their messages are tagged with it."""
        return self._evaluations

    @torch.no_grad()
    def outputs(self, model: nn.Module) -> Tensor:
        """What the model gives for the own nodes."""
        self._evaluations += 1
        views, x = self.filler.whole_views(self.layers, self._evaluations)
        training = model.training
        try:
            return computed(model.eval(), views, x).float()
        finally:
            model.train(training)


def outputs_of(model: nn.Module, batch: FilledBatch) -> Tensor:
    """What the model gives for the last view's destinations."""
    return computed(model, batch.views, batch.inputs())


def computed(model: nn.Module, views: tuple[View, ...], x: Tensor) -> Tensor:
    """Outputs of a model; one that does not know of layers gets the one view there is."""
    one = all(view.graph is views[0].graph for view in views) and not isinstance(model, LayeredModel)
    given: Tensor = model(views[0] if one else views, x)
    return given
