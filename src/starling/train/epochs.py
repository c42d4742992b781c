"""The ordinary loop: epochs of steps that all workers make together, each scored exactly."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from starling.core.allocator import release_freed_memory
from starling.core.memory import peak_rss_bytes, rss_bytes
from starling.engine.fill import FilledBatch
from starling.train.averaging.parts_work import PartsWork
from starling.train.journal import Journal
from starling.train.learning import Learning
from starling.train.results import EpochRecord, WorkerRecord
from starling.train.steps import Steps

_WORTH_RELEASING = 1 << 28
"""Bytes of holes that training left, in which evaluation's larger arrays may find no room."""


class EpochLoop:
    """Trains in one process, and in each worker of a team; workers make the same decisions from the same numbers."""

    def __init__(self, journal: Journal, learning: Learning) -> None:
        self._journal, self._learning, self._steps = journal, learning, Steps(journal, learning)
        self._setup, self._settings, self._team = journal.setup, journal.setup.config.run, journal.team
        assert not isinstance(self._setup.work, PartsWork), "it has a loop of its own"
        self._work = self._setup.work

    def epochs(self, after: int = 0) -> Generator[int]:
        """Train epoch by epoch, or fewer where validation stops getting better; gives each one's number when it is done."""
        with self._work.prepared(self._settings.epochs, after) as batches:
            for epoch in range(after + 1, self._settings.epochs + 1):
                if self._journal.out_of_patience:
                    break
                self._epoch(epoch, batches)
                yield epoch

    def state(self) -> dict[str, Any]:
        """What moves the weights, the same on all workers."""
        table, learning = self._setup.embeddings, self._learning
        return {
            "optimizer": learning.optimizer.state_dict(),
            "schedule": learning.schedule.state(),
            "embedding steps": 0 if table is None else table.steps,
        }

    def own_state(self) -> dict[str, Any]:
        """Nothing of a worker's own."""
        return {}

    def restore(self, state: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        """Go on from there; the model and the embeddings have their rows already."""
        self._learning.optimizer.load_state_dict(dict(state["optimizer"]))
        self._learning.schedule.restore(state["schedule"])
        self._learning.updates.reread()
        if self._setup.embeddings is not None:
            self._setup.embeddings.steps = state["embedding steps"]

    def _epoch(self, epoch: int, batches: Iterator[FilledBatch]) -> None:
        began, rate, model, journal = time.monotonic(), self._learning.schedule.rate, self._setup.model, self._journal
        before = self._team.ledger.close()  # what evaluation took is not this epoch's
        self._team.ledger.fetched(**vars(before.fetched))  # but rows fetched meanwhile are for its steps
        model.train()

        def after(step: int, loss: float) -> None:
            self._move_embeddings()
            journal.watch.step(epoch, step, loss)

        loss = self._steps.of_epoch(epoch, self._work.steps_per_epoch, batches, after)
        accounts, trained = self._team.ledger.close(), time.monotonic()
        mine = WorkerRecord(accounts, peak_rss_bytes(), self._steps.memory)
        workers = self._work.with_stages(journal.of_team(epoch, mine), epoch)
        due = epoch % self._settings.evaluate_every == 0 or epoch == self._settings.epochs
        self._team.phase.enter(f"evaluation after epoch {epoch}")
        if due and self._setup.config.team.boundary < 1:  # it reads more of other parts than training: it would be the peak
            release_freed_memory(_WORTH_RELEASING)
        scores = self._work.scores(model, self._setup.task.score) if due else None
        if scores is not None:
            journal.keep_if_best(epoch, scores)
        self._learning.schedule.epoch_ended(scores.val if scores else None)
        evaluating = time.monotonic() - trained
        journal.write(EpochRecord(epoch, loss, rate, trained - began, evaluating, rss_bytes(), scores, workers))

    def _move_embeddings(self) -> None:
        """Move the rows that the step has read, where rows are learnt; their rate follows that of the weights."""
        if self._setup.embeddings is not None:
            config = self._setup.config
            self._setup.embeddings.step(config.embedding.rate(self._learning.schedule.rate, config.optimizer.lr))
