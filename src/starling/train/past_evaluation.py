"""Scores of workers whose targets look only into their past: every split node with all edges of its own past, in batches.

Each worker computes its own nodes, asking others for what it needs as in training, with messages of its own: batches of training
are prepared at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from starling.comm.tags import Channel
from starling.engine.data.fetch import FetchedStep
from starling.engine.data.sample import Sampled
from starling.engine.data.schedule import Scheduled
from starling.engine.fill import FilledBatch
from starling.engine.hybrid.exchange import Calls
from starling.engine.hybrid.source import WorkerSource
from starling.engine.source import SPLITS
from starling.train.metrics import Score, Tally
from starling.train.results import Scores
from starling.train.work import computed

_BATCH = 1024
_SAMPLING, _FETCHING, _ROWS, _SCORING = 0, 2000, 4000, 6000
"""Messages of one batch from these numbers on."""


def sampling_calls(number: int) -> Calls:
    """The messages by which a batch of an evaluation is sampled."""
    return Calls(number, Channel.PAST, _SAMPLING)


def fetching_calls(number: int) -> Calls:
    """The messages by which its rows are fetched."""
    return Calls(number, Channel.PAST, _FETCHING)


def learnt_calls(number: int) -> Calls:
    """The messages by which rows that are learnt are read."""
    return Calls(number, Channel.PAST, _ROWS)


@dataclass(eq=False)
class PastEvaluation:
    """Exact scores, the same on every worker."""

    source: WorkerSource
    first: int
    """The global id of this worker's first node."""
    sample: Callable[[Scheduled], Sampled]
    fetch: Callable[[Sampled], FetchedStep]
    compact: Callable[[FetchedStep], FilledBatch]
    copy: Callable[[FilledBatch], FilledBatch]
    _batches: int = field(default=0, init=False)

    @torch.no_grad()
    def scores(self, model: nn.Module, score: Score) -> Scores:
        """The metric on each split."""
        source, team = self.source, self.source.team
        assert source.y is not None, "a task checks that there are labels"
        splits = [source.splits.get(name, np.empty(0, np.int64)) for name in SPLITS]
        counts = team.all_lists(
            Calls(self._batches, Channel.PAST, _SCORING).forward(), np.array([len(rows) for rows in splits])
        )
        found, training = [], model.training
        model.eval()
        try:
            for rows, most in zip(splits, np.max(counts, axis=0).tolist(), strict=True):
                tally = Tally(score)
                tally.add(torch.empty(0, score.outputs), torch.from_numpy(source.y[:0]))  # a worker without nodes says so
                for start in range(0, most, _BATCH):  # as many as the worker with the most nodes, so that nobody is missed
                    mine = rows[start : start + _BATCH]
                    batch = self._batch(mine + self.first)
                    if len(mine):
                        given = computed(model, batch.views, batch.inputs())
                        tally.add(given.float().cpu(), torch.from_numpy(source.y[mine]))
                    else:
                        batch.inputs()  # others may ask for rows that are learnt here
                self._batches += 1
                found.append(tally.over_team(team, Calls(self._batches, Channel.PAST, _SCORING)))
        finally:
            model.train(training)
        return Scores(*found)

    def _batch(self, targets: np.ndarray) -> FilledBatch:
        self._batches += 1
        scheduled = Scheduled(self._batches, 0, 0, targets, len(targets))
        return self.copy(self.compact(self.fetch(self.sample(scheduled))))
