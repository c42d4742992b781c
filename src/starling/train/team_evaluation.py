"""Exact outputs and scores of all nodes by a team: one pass over the whole graph, each worker its own nodes."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from starling.comm.tags import Channel
from starling.engine.hybrid.fill import TeamFiller
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.share.source import WorkerSource
from starling.engine.source import SPLITS
from starling.train.metrics import Score
from starling.train.outputs import computed
from starling.train.results import Scores

SCORING = 1 << 12
"""Messages of an evaluation from this number on belong to its scores."""


@dataclass
class TeamEvaluation:
    """One worker's share; all workers evaluate together."""

    source: WorkerSource
    filler: TeamFiller
    layers: int
    _evaluations: int = field(default=0, init=False)
    """How many there were: their messages are tagged with it."""

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

    def scoring_calls(self) -> Calls:
        """Messages about the scores of the outputs that were computed last."""
        return Calls(self._evaluations, Channel.EVALUATE, SCORING)

    def scores(self, model: nn.Module, score: Score) -> Scores:
        """The metric on each split; the same numbers on every worker."""
        source, team = self.source, self.source.team
        assert source.y is not None, "a task checks that there are labels"
        given, y = self.outputs(model).cpu(), torch.from_numpy(source.y)
        calls, found = self.scoring_calls(), []
        for name in SPLITS:
            rows = torch.from_numpy(source.splits.get(name, source.graph.position[:0]))
            found.append(score.over_team(team, calls, given[rows], y[rows]))
        return Scores(*found)
