"""The step loop: plans are filled in the background, the model computes, weights move, epochs are scored exactly.

The same loop runs in one process and in each worker of a team; workers make the same decisions from the same numbers, and the
first of them writes the run directory.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from starling.comm.ledger import Fetched
from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.core.environment import thread_count
from starling.core.errors import InputError, StarlingError
from starling.core.memory import peak_rss_bytes, rss_bytes
from starling.engine.data.stages import Stages
from starling.engine.fill import FilledBatch
from starling.plan.background import Background
from starling.train.averaging.parts_work import PartsWork
from starling.train.averaging.setup import set_up_averaging
from starling.train.config import RunConfig
from starling.train.data_work import DataWork, replace_stages
from starling.train.embeddings import save_embeddings
from starling.train.links.batch import LinkBatch
from starling.train.links.setup import set_up_links
from starling.train.optimizers import Schedule, clock_of, make_optimizer
from starling.train.parameters import Parameters
from starling.train.results import EpochRecord, Nobody, Scores, TrainResult, Watcher, WorkerRecord
from starling.train.run_directory import RunDirectory
from starling.train.setup import Setup, set_up
from starling.train.step_memory import Held, StepMemory, formula_bytes
from starling.train.sync import Step, Updates
from starling.train.work import Work, outputs_of


def fit(
    config: RunConfig,
    run: Path | RunDirectory | None = None,
    *,
    watch: Watcher | None = None,
    team: Team | None = None,
    scratch: Path | None = None,
    stages: Callable[[Stages], Stages] | None = None,
) -> TrainResult:
    """Train to the end as one worker of `team` (by default alone); the first worker writes the run directory.

    `run` is a path that does not exist yet, or a directory made for this run. The result's model has the best epoch's weights.
    `scratch` is a folder for embeddings beyond their memory, by default the run directory. `stages` may replace stages that prepare
    the batches of a data-parallel worker.
    """
    began, team = time.monotonic(), team or Team()
    team.phase.enter("reading the graph")
    setup = _set_up(config, team)
    if stages is not None:
        replace_stages(setup.work, stages)
    optimizer = make_optimizer(setup.model, setup.config.optimizer)
    averaging = isinstance(setup.work, PartsWork)
    turned = clock_of(optimizer) if averaging else optimizer
    schedule = Schedule(
        turned,
        setup.config.schedule,
        setup.config.run.epochs,
        higher_is_better=setup.task.score.higher_is_better,
    )
    if averaging:
        turned.step()  # of nothing: a schedule expects that steps come first
    updates = _updates(setup, optimizer, Team() if averaging else team)  # a part's steps are its own
    directory = None
    if team.rank == 0:
        directory = run if isinstance(run, RunDirectory) else RunDirectory.create(run, setup.config.data.path.name)
        directory.write_config(setup.config)
    if setup.embeddings is not None:
        folder = directory.path if directory is not None else scratch
        setup.embeddings.begin(folder if folder is not None and folder.is_dir() else None)
    given = (setup, team, updates, schedule, directory, watch or Nobody())
    with updates:
        result = (_averaging_loop(*given, optimizer) if averaging else Loop(*given)).run(began)
    if directory is not None:
        directory.write_summary(result.to_json())
    return result


def _set_up(config: RunConfig, team: Team) -> Setup:
    if config.task.name == "link":
        return set_up_links(config, team)
    return set_up_averaging(config, team) if config.sync.name == "average" else set_up(config, team)


def _averaging_loop(*given: Any) -> Loop:
    from starling.train.averaging.loop import AveragingLoop  # it is a loop, too

    return AveragingLoop(*given)


def _updates(setup: Setup, optimizer: torch.optim.Optimizer, team: Team) -> Updates:
    """How the weights of this run move."""
    config, sync = setup.config, setup.config.sync
    if sync.staleness and torch.device(config.run.device).type != "cpu":
        raise InputError(f"--sync stale runs on the processor so far, got the device {config.run.device}. Pass --device cpu.")
    if sync.staleness and setup.work.steps_per_epoch == 1:
        raise InputError(
            f"--staleness {sync.staleness} lets the steps of an epoch overlap, and here an epoch is one step. Pass --strategy mini "
            "or cluster, with less in a step than all, or leave it out."
        )
    parameters = Parameters(setup.model, optimizer, clip=config.optimizer.clip, kept=sync.staleness)
    threads = config.team.threads or thread_count()
    return Updates(parameters, team, staleness=sync.staleness, in_flight=sync.in_flight, threads=threads)


def _hit_rate(fetched: Sequence[Fetched]) -> float | None:
    """Of a whole run and all its workers."""
    return Fetched(cached=sum(some.cached for some in fetched), far=sum(some.far for some in fetched)).hit_rate


def _prepared(work: Work, epochs: int) -> AbstractContextManager[Iterator[FilledBatch]]:
    """All batches of a run, prepared in the background for as long as the block lasts."""
    if isinstance(work, DataWork):
        return work.prepared(epochs)
    return Background(work.batches(epochs), stage="preparing batches")


class Loop:
    """One run under way."""

    def __init__(
        self,
        setup: Setup,
        team: Team,
        updates: Updates,
        schedule: Schedule,
        directory: RunDirectory | None,
        watch: Watcher,
    ) -> None:
        self._setup, self._settings, self._team = setup, setup.config.run, team
        self._model, self._task, self._work = setup.model, setup.task, setup.work
        self._updates, self._schedule, self._directory, self._watch = updates, schedule, directory, watch
        self._records: list[EpochRecord] = []
        self._memory = StepMemory()
        self._best: tuple[int, Scores, dict[str, Tensor]] | None = None

    def run(self, began: float) -> TrainResult:
        """All epochs, or fewer where validation stops getting better."""
        self._watch.begin(self._settings.epochs, self._work.steps_per_epoch, self._task.score.name)
        self._all_epochs()
        assert self._best is not None, "the last epoch is evaluated"
        best_epoch, scores, weights = self._best
        self._model.load_state_dict(weights)
        workers = [record.workers for record in self._records]
        return TrainResult(
            run=self._directory.path if self._directory is not None else Path(),
            strategy=self._setup.config.strategy.name,
            epochs=len(self._records),
            metric=self._task.score.name,
            best_epoch=best_epoch,
            scores=scores,
            final_loss=self._records[-1].loss,
            epoch_seconds_median=statistics.median(record.seconds for record in self._records),
            peak_rss_bytes=max(worker.peak_rss_bytes for worker in workers[-1]),
            seconds=round(time.monotonic() - began, 3),
            losses=tuple(record.loss for record in self._records),
            model=self._model,
            workers=self._team.size,
            parallel=self._setup.config.team.parallel,
            sync=self._setup.config.sync.name,
            embeddings=self._setup.config.embedding.dim or 0,
            bytes_sent_per_epoch=int(statistics.median(sum(sum(w.accounts.bytes_to) for w in epoch) for epoch in workers)),
            formula_bytes=max(worker.memory.formula for worker in workers[-1]),
            held_bytes=max(worker.memory.held for worker in workers[-1]),
            cache_hit_rate=_hit_rate([worker.accounts.fetched for epoch in workers for worker in epoch]),
        )

    def _all_epochs(self) -> None:
        epochs, work = self._settings.epochs, self._work
        assert not isinstance(work, PartsWork), "it has a loop of its own"
        with _prepared(work, epochs) as batches:
            for epoch in range(1, epochs + 1):
                self._epoch(epoch, batches)
                if self._settings.patience and epoch - self._best_epoch >= self._settings.patience:
                    break

    @property
    def _best_epoch(self) -> int:
        return self._best[0] if self._best is not None else 0

    def _epoch(self, epoch: int, batches: Iterator[FilledBatch]) -> None:
        began, rate, total, shares = time.monotonic(), self._schedule.rate, 0.0, list[float]()
        before = self._team.ledger.close()  # what evaluation took is not this epoch's
        self._team.ledger.fetched(**vars(before.fetched))  # but rows fetched meanwhile are for its steps
        self._model.train()
        for step, loss in enumerate(self._updates.run(self._steps(epoch, batches, shares)), 1):
            self._check(loss, epoch, step)
            self._move_embeddings()
            total += loss * shares[step - 1]
            self._watch.step(epoch, step, loss)
        trained = time.monotonic()
        workers = self._account(epoch)
        due = epoch % self._settings.evaluate_every == 0 or epoch == self._settings.epochs
        self._team.phase.enter(f"evaluation after epoch {epoch}")
        scores = self._work.scores(self._model, self._task.score) if due else None
        if scores is not None:
            self._keep_if_best(epoch, scores)
        self._schedule.epoch_ended(scores.val if scores else None)
        seconds, evaluating = trained - began, time.monotonic() - trained
        record = EpochRecord(epoch, total / max(sum(shares), 1), rate, seconds, evaluating, rss_bytes(), scores, workers)
        self._write(record)

    def _write(self, record: EpochRecord) -> None:
        """Keep an epoch's numbers, and tell them."""
        self._records.append(record)
        if self._directory is not None:
            self._directory.append_metrics(record.to_json())
        self._watch.epoch(record)

    def _steps(self, epoch: int, batches: Iterator[FilledBatch], shares: list[float]) -> Iterator[Step]:
        """The epoch's steps, each when its batch is there; how much it counts is added to `shares`."""
        for step in range(1, self._work.steps_per_epoch + 1):
            self._team.phase.enter(f"epoch {epoch}, step {step}")
            batch = next(batches)
            shares.append(batch.share)
            for peer, count in batch.sent.items():
                self._team.ledger.sent(peer, count)
            yield partial(self._measured_loss if step == 1 else self._loss, batch)

    def _loss(self, batch: FilledBatch, model: nn.Module) -> Tensor:
        given = batch.pair_scores(model) if isinstance(batch, LinkBatch) else outputs_of(model, batch)[batch.outputs]
        return self._task.loss(given, batch.y, batch.weight)

    def _measured_loss(self, batch: FilledBatch, model: nn.Module) -> Tensor:
        with Held(model) as held:
            loss = self._loss(batch, model)
        self._memory = StepMemory(formula_bytes(model, batch.views), held.bytes)
        return loss

    def _move_embeddings(self) -> None:
        """Move the rows that the step has read, where rows are learnt; their rate follows that of the weights."""
        if self._setup.embeddings is not None:
            config = self._setup.config
            factor = 1.0 if config.embedding.lr is None else config.embedding.lr / config.optimizer.lr
            self._setup.embeddings.step(self._schedule.rate * factor)

    def _check(self, loss: float, epoch: int, step: int) -> None:
        """Stop at a loss that is no number: nothing can be learnt any more."""
        if not math.isfinite(loss):
            where = "" if self._directory is None else f" What was learnt before is in {self._directory.path}."
            raise StarlingError(
                f"The loss became {loss} in epoch {epoch}, step {step}. Lower --lr (it is {self._schedule.rate:g}), pass "
                f"--clip 1, or look for extreme features.{where}"
            )

    def _account(self, epoch: int) -> tuple[WorkerRecord, ...]:
        """What every worker's time and traffic of this epoch went into."""
        mine = WorkerRecord(self._team.ledger.close(), peak_rss_bytes(), self._memory)
        lists = self._team.all_lists(make_tag(Channel.SUMS, epoch, 0), mine.to_numbers())
        workers = tuple(WorkerRecord.from_numbers(numbers, self._team.size) for numbers in lists)
        if isinstance(self._work, DataWork):
            stages = self._work.team_accounts(make_tag(Channel.SUMS, epoch, 1))
            workers = tuple(replace(worker, stages=of_worker) for worker, of_worker in zip(workers, stages, strict=True))
        return workers

    def _keep_if_best(self, epoch: int, scores: Scores) -> None:
        """Keep weights that beat all before on validation; without validation nodes, the latest."""
        before = self._best[1].val if self._best is not None else None
        if scores.val is None or self._task.score.better(scores.val, before):
            weights = {name: value.detach().cpu().clone() for name, value in self._model.state_dict().items()}
            self._best = (epoch, scores, weights)
            if self._directory is not None:
                self._directory.save_weights(weights)
            if self._setup.embeddings is not None:
                run = None if self._directory is None else self._directory.path
                save_embeddings(self._setup.embeddings, self._team, epoch, self._setup.config.data.path, run)
