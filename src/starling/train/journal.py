"""What a run leaves behind: a record of every epoch, the best weights so far, and at the end its result.

Every worker keeps one, with the same numbers in it; the first worker's is also written to the run directory.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from starling.comm.ledger import Fetched
from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.core.memory import peak_rss_bytes
from starling.train.by_worker import medians_by_worker
from starling.train.embeddings import save_embeddings
from starling.train.results import EpochRecord, Scores, TrainResult, Watcher, WorkerRecord
from starling.train.run_directory import RunDirectory
from starling.train.setup import Setup

_PEAKS = 2
"""The message of the largest memories, beside those of an epoch (0 and 1)."""


class Journal:
    """The journal of a run under way; `directory` is the first worker's."""

    def __init__(self, setup: Setup, team: Team, directory: RunDirectory | None, watch: Watcher) -> None:
        self.setup, self.team, self.directory, self.watch = setup, team, directory, watch
        self._records: list[EpochRecord] = []
        self._best: tuple[int, Scores, dict[str, Tensor]] | None = None

    def state(self) -> dict[str, Any]:
        """The best epoch so far, with its weights; the records are in the run directory."""
        if self._best is None:
            return {}
        epoch, scores, weights = self._best
        return {"epoch": epoch, "scores": vars(scores), "weights": weights}

    def restore(self, state: Mapping[str, Any], lines: Iterable[str]) -> None:
        """Go on after the epochs that `lines` of the metrics tell of."""
        self._records = [EpochRecord.from_json(json.loads(line)) for line in lines]
        if state:
            self._best = state["epoch"], Scores(**state["scores"]), state["weights"]

    def begin(self) -> None:
        """Tell who watches that training begins."""
        self.watch.begin(self.setup.config.run.epochs, self.setup.work.steps_per_epoch, self.setup.task.score.name)

    def write(self, record: EpochRecord) -> None:
        """Keep an epoch's numbers, and tell them."""
        self._records.append(record)
        if self.directory is not None:
            self.directory.append_metrics(record.to_json())
        self.watch.epoch(record)

    def of_team(self, number: int, mine: WorkerRecord) -> tuple[WorkerRecord, ...]:
        """Every worker's account, by rank; `number` tells the messages of one time from those of the next."""
        told = self.team.all_lists(make_tag(Channel.SUMS, number, 0), mine.to_numbers())
        return tuple(WorkerRecord.from_numbers(numbers, self.team.size) for numbers in told)

    def _peaks(self) -> list[int]:
        """The largest memory of every worker by now, by rank."""
        told = self.team.all_lists(make_tag(Channel.SUMS, len(self._records), _PEAKS), np.array([peak_rss_bytes()]))
        return [int(numbers[0]) for numbers in told]

    def keep_if_best(self, epoch: int, scores: Scores) -> None:
        """Keep weights that beat all before on validation; without validation nodes, the latest."""
        setup, directory = self.setup, self.directory
        before = self._best[1].val if self._best is not None else None
        if scores.val is None or setup.task.score.better(scores.val, before):
            weights = {name: value.detach().cpu().clone() for name, value in setup.model.state_dict().items()}
            self._best = (epoch, scores, weights)
            if directory is not None:
                directory.save_weights(weights)
            if setup.embeddings is not None:
                run = None if directory is None else directory.path
                save_embeddings(setup.embeddings, self.team, epoch, setup.config.data.path, run)

    @property
    def out_of_patience(self) -> bool:
        """Whether validation has not got better for as long as the run waits for it; an epoch without scores tells nothing."""
        patience = self.setup.config.run.patience
        if not patience or self._best is None or (last := self._records[-1]).scores is None:
            return False
        return last.epoch - self._best[0] >= patience

    def end(self, began: float) -> TrainResult:
        """The result of a run that `began` then, written to its directory; the model gets the best epoch's weights."""
        assert self._best is not None, "the last epoch is evaluated"
        (best_epoch, scores, weights), setup, records = self._best, self.setup, self._records
        setup.model.load_state_dict(weights)
        workers, peaks = [record.workers for record in records], self._peaks()
        result = TrainResult(
            run=self.directory.path if self.directory is not None else Path(),
            strategy=setup.config.strategy.name,
            epochs=len(records),
            metric=setup.task.score.name,
            best_epoch=best_epoch,
            scores=scores,
            final_loss=records[-1].loss,
            epoch_seconds_median=statistics.median(record.seconds for record in records),
            peak_rss_bytes=max(peaks),
            seconds=round(time.monotonic() - began, 3),
            losses=tuple(record.loss for record in records),
            model=setup.model,
            workers=self.team.size,
            parallel=setup.config.team.parallel,
            sync=setup.config.sync.name,
            embeddings=setup.config.embedding.dim or 0,
            bytes_sent_per_epoch=int(statistics.median(sum(sum(w.accounts.bytes_to) for w in epoch) for epoch in workers)),
            formula_bytes=max(worker.memory.formula for worker in workers[-1]),
            held_bytes=max(worker.memory.held for worker in workers[-1]),
            cache_hit_rate=_hit_rate([worker.accounts.fetched for epoch in workers for worker in epoch]),
            by_worker=medians_by_worker([[worker.accounts for worker in epoch] for epoch in workers], peaks),
        )
        if self.directory is not None:
            self.directory.write_summary(result.to_json())
        return result


def _hit_rate(fetched: Sequence[Fetched]) -> float | None:
    """Of a whole run and all its workers."""
    return Fetched(cached=sum(some.cached for some in fetched), far=sum(some.far for some in fetched)).hit_rate
