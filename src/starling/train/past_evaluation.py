"""Scores of workers whose targets look only into their past: every split node with all edges of its own past, in batches.

Each worker computes its own nodes, asking others for what it needs as in training, with messages of its own: batches of training
are prepared at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from starling.comm.tags import Channel
from starling.engine.data.fetch import FetchedStep
from starling.engine.data.sample import Sampled
from starling.engine.data.schedule import Scheduled
from starling.engine.fill import FilledBatch
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.share.source import WorkerSource
from starling.engine.source import SPLITS
from starling.infer.batch_size import BatchSize
from starling.train.metrics import Score, Tally
from starling.train.outputs import computed
from starling.train.results import Scores

_NOBODY = np.empty(0, np.int64)
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
    memory: int
    """Bytes that a batch may take."""
    _batches: int = field(default=0, init=False)

    @torch.no_grad()
    def scores(self, model: nn.Module, score: Score) -> Scores:
        """The metric on each split."""
        training = model.training
        model.eval()
        try:
            return Scores(*(self._score(model, score, self.source.splits.get(name, _NOBODY)) for name in SPLITS))
        finally:
            model.train(training)

    def _score(self, model: nn.Module, score: Score, rows: NDArray[Any]) -> float | None:
        team, tally, size, start = self.source.team, Tally(score), BatchSize(self.memory), 0
        assert self.source.y is not None, "a task checks that there are labels"
        tally.add(torch.empty(0, score.outputs), torch.from_numpy(self.source.y[:0]))  # a worker without nodes says so
        while True:
            self._batches += 1
            calls = Calls(self._batches, Channel.PAST, _SCORING)
            left = team.all_lists(calls.next_tag(), np.array([len(rows) - start]))
            if max(int(count[0]) for count in left) == 0:
                return tally.over_team(team, calls)
            mine = rows[start : start + size.now]  # perhaps none: others need what lies here
            start += len(mine)
            scheduled = Scheduled(self._batches, 0, 0, mine + self.first, len(mine))
            batch = self.copy(self.compact(self.fetch(self.sample(scheduled))))
            size.saw(len(mine), batch.x.nbytes)
            tally.add(computed(model, batch.views, batch.inputs()).float().cpu(), batch.y.cpu())
