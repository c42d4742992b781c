"""One worker's share of data-parallel training: batches of its own, prepared by a pipeline; evaluation by all workers together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from torch import nn

from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.data.pipeline import Pipeline, StageAccount
from starling.engine.data.stages import PipelineSettings, Stages
from starling.engine.fill import FilledBatch
from starling.train.averaging.evaluation import PartsEvaluation
from starling.train.metrics import Score
from starling.train.past_evaluation import PastEvaluation
from starling.train.results import Scores, WorkerRecord
from starling.train.team_evaluation import TeamEvaluation
from starling.train.work import Work

_CLOSING = 8000
"""The number of the message by which workers agree on where to stop, after those of a step."""


@dataclass
class DataWork(Work):
    """Batches of one worker. `talks`: the stages exchange messages with workers of other hosts."""

    team: Team
    stages: Stages
    settings: PipelineSettings
    steps: int
    """Of an epoch."""
    whole: TeamEvaluation | PartsEvaluation | PastEvaluation
    """Evaluation by all workers, each its own nodes: one pass over the whole graph, part by part, or in batches of pasts."""
    talks: bool = False
    _runs: list[Pipeline[FilledBatch]] = field(default_factory=list, init=False)

    @property
    def steps_per_epoch(self) -> int:
        """How many steps an epoch has."""
        return self.steps

    def batches(self, epochs: int, after: int = 0) -> Iterator[FilledBatch]:
        """All batches, each made when it is asked for, without threads."""
        return self.stages.from_step(after * self.steps).one_by_one((epochs - after) * self.steps)

    @contextmanager
    def prepared(self, epochs: int, after: int = 0) -> Iterator[Iterator[FilledBatch]]:
        """All batches, prepared ahead by a pipeline that ends with the block."""
        try:
            if self.settings.mode == "off":
                yield self.batches(epochs, after)
            elif self.settings.mode == "non-stop":
                with self._pipeline(after * self.steps, (epochs - after) * self.steps) as batches:
                    self._runs = [batches]
                    yield batches
            else:
                by_epoch = _ByEpoch(self, range(after, epochs))
                with by_epoch:
                    yield by_epoch
        finally:
            if isinstance(self.whole, PartsEvaluation):
                self.whole.close()

    def stage_accounts(self) -> tuple[StageAccount, ...]:
        """What each stage did since this was last asked."""
        found = [pipeline.accounts() for pipeline in self._runs]
        self._runs = self._runs[-1:]
        return tuple(
            StageAccount(same[0].name, sum(s.seconds for s in same), max(s.fill for s in same))
            for same in zip(*found, strict=True)
        )

    def team_accounts(self, tag: int) -> list[tuple[StageAccount, ...]]:
        """Every worker's accounts of its stages, by rank; all workers have the same stages."""
        mine = self.stage_accounts()
        numbers = np.array([value for stage in mine for value in (stage.seconds, stage.fill)]).view(np.int64)
        everybody = [values.view(np.float64).reshape(-1, 2).tolist() for values in self.team.all_lists(tag, numbers)]
        names = [stage.name for stage in mine]
        return [tuple(StageAccount(name, *values) for name, values in zip(names, their, strict=True)) for their in everybody]

    def with_stages(self, workers: tuple[WorkerRecord, ...], epoch: int) -> tuple[WorkerRecord, ...]:
        """Accounts of all workers with those of their pipelines."""
        stages = self.team_accounts(make_tag(Channel.SUMS, epoch, 1))
        return tuple(replace(worker, stages=of_worker) for worker, of_worker in zip(workers, stages, strict=True))

    def scores(self, model: nn.Module, score: Score) -> Scores:
        """From exact outputs of all nodes."""
        return self.whole.scores(model, score)

    def _pipeline(self, first: int, count: int) -> Pipeline[FilledBatch]:
        return Pipeline(
            count,
            self.stages.from_step(first).in_threads(self.settings),
            most_bytes=self.settings.memory,
            agree=partial(_furthest, self.team) if self.talks else None,
            around=self.team.ledger.behind,
        )


class _ByEpoch(AbstractContextManager["_ByEpoch"]):
    """A pipeline for each epoch, which begins with nothing prepared."""

    def __init__(self, work: DataWork, epochs: range) -> None:
        self._work, self._left = work, iter(epochs)
        self._open: Pipeline[FilledBatch] | None = None

    def __iter__(self) -> Iterator[FilledBatch]:
        return self

    def __next__(self) -> FilledBatch:
        batch = next(self._open, None) if self._open is not None else None
        if batch is None:
            epoch, steps = next(self._left), self._work.steps_per_epoch
            self._close(failed=False)
            self._open = self._work._pipeline(epoch * steps, steps)
            self._work._runs.append(self._open)
            batch = next(self._open)
        return batch

    def __exit__(self, *failure: object) -> None:
        self._close(failed=failure[0] is not None)

    def _close(self, *, failed: bool) -> None:
        if self._open is not None:
            self._open.close(failed=failed)


def replace_stages(work: object, change: Callable[[Stages], Stages]) -> None:
    """Let a worker prepare its batches by other stages; every worker must be given the same."""
    if not isinstance(work, DataWork):
        raise InputError("Stages prepare the batches of --parallel data, and this run has none. Leave out stages.")
    work.stages = change(work.stages)


def _furthest(team: Team, begun: int) -> int:
    """The most steps that any worker has begun."""
    lists = team.all_lists(make_tag(Channel.SAMPLE, 0, _CLOSING), np.array([begun]))
    return max(int(numbers[0]) for numbers in lists)
