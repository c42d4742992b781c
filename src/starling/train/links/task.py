"""Learning to tell edges from other pairs: how far the score of a target edge is from those of its negatives."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from starling.engine.fill import FilledBatch
from starling.train.links.batch import LinkBatch
from starling.train.links.held_out import Examination
from starling.train.links.metrics import make_link_score
from starling.train.links.settings import LinkSettings
from starling.train.metrics import TaskKind
from starling.train.tasks import Task, TaskSettings


class LinkTask(Task):
    """A loss over target edges; what a model gives are the scores [P, 1 + K] of each edge and its K negatives."""

    kind: TaskKind = "link"

    def __init__(self, settings: LinkSettings, task: TaskSettings, outputs: int) -> None:
        self.link_score = make_link_score(task.metric)
        super().__init__(outputs, self.link_score)
        self.settings = settings

    def examination(self, seed: int) -> Examination:
        """How held-out edges are scored."""
        return Examination(self.settings, self.link_score, seed)

    @property
    def against_itself(self) -> bool:
        """Whether a node linked to itself is a negative: asked for, or because evaluation has it among the candidates."""
        asked = self.settings.itself
        return self.examination(0).against_all if asked is None else asked

    def given(self, model: nn.Module, batch: FilledBatch) -> Tensor:
        """The scores of a step's target edges and of the pairs against them."""
        assert isinstance(batch, LinkBatch)
        return batch.pair_scores(model)

    def _each(self, given: Tensor, wanted: Tensor) -> Tensor:
        return edge_losses(given[:, 0], given[:, 1:], self.settings)


def edge_losses(edge: Tensor, negative: Tensor, settings: LinkSettings) -> Tensor:
    """The loss of each edge [P] from its score [P] and its negatives' [P, K].

    bce: log(1 + e^−s) + mean of log(1 + e^n); softmax: −log of e^s / (e^s + Σ e^n); margin: mean of max(0, margin − s + n).
    """
    if settings.loss == "bce":
        return softplus(-edge) + softplus(negative).mean(1)
    if settings.loss == "softmax":
        return torch.logsumexp(torch.cat([edge[:, None], negative], 1), 1) - edge
    return (settings.margin - edge[:, None] + negative).clamp(min=0).mean(1)
