"""The step loop: plans are filled in the background, the model computes, weights move, epochs are scored exactly."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from starling.core.errors import StarlingError
from starling.core.memory import peak_rss_bytes, rss_bytes
from starling.engine.fill import FilledBatch, Filler
from starling.engine.source import GraphSource
from starling.infer.layerwise import Inference
from starling.plan.background import Background
from starling.train.config import RunConfig
from starling.train.optimizers import Schedule, clip_gradients, make_optimizer
from starling.train.results import EpochRecord, Nobody, Scores, TrainResult, Watcher
from starling.train.run_directory import RunDirectory, check_free
from starling.train.setup import Setup, set_up
from starling.train.tasks import Task


class Trainer:
    """Trains one run in one process.

    `config` is a `RunConfig`, or its tables as a config file has them: ``{"data": {"path": "graph"}, "model": {"name": "gcn"}}``.
    `run` is the directory to write, ``runs/<graph>-<number>`` by default.
    """

    def __init__(
        self,
        config: RunConfig | Mapping[str, Mapping[str, Any]],
        *,
        run: Path | str | None = None,
        watch: Watcher | None = None,
    ) -> None:
        self.config = config if isinstance(config, RunConfig) else RunConfig.from_tables(config)
        self._run, self._watch = None if run is None else Path(run), watch or Nobody()

    def fit(self) -> TrainResult:
        """Train to the end and write the run directory; the result's model has the best epoch's weights."""
        began = time.monotonic()
        check_free(self._run)
        setup = set_up(self.config)
        optimizer = make_optimizer(setup.model, setup.config.optimizer)
        schedule = Schedule(
            optimizer, setup.config.schedule, setup.config.run.epochs, higher_is_better=setup.task.score.higher_is_better
        )
        directory = RunDirectory.create(self._run, setup.config.data.path.name)
        directory.write_config(setup.config)
        loop = _Loop(setup, optimizer, schedule, directory, self._watch)
        result = loop.run(began)
        directory.write_summary(result.to_json())
        return result


class _Loop:
    """One run under way."""

    def __init__(
        self, setup: Setup, optimizer: torch.optim.Optimizer, schedule: Schedule, directory: RunDirectory, watch: Watcher
    ) -> None:
        self._setup, self._settings = setup, setup.config.run
        self._model, self._task, self._strategy = setup.model, setup.task, setup.strategy
        self._optimizer, self._schedule, self._directory, self._watch = optimizer, schedule, directory, watch
        device, reuse = self._settings.device, self._settings.reuse
        self._filler = Filler(setup.source, seed=self._settings.seed, device=device, reuse=reuse)
        self._inference = Inference(setup.source, setup.memory, device, reuse)
        self._records: list[EpochRecord] = []
        self._best: tuple[int, Scores, dict[str, Tensor]] | None = None

    def run(self, began: float) -> TrainResult:
        """All epochs, or fewer where validation stops getting better."""
        self._watch.begin(self._settings.epochs, self._strategy.steps_per_epoch, self._task.score.name)
        with Background(self._batches(), stage="preparing batches") as batches:
            for epoch in range(1, self._settings.epochs + 1):
                self._epoch(epoch, batches)
                if self._settings.patience and epoch - self._best_epoch >= self._settings.patience:
                    break
        assert self._best is not None, "the last epoch is evaluated"
        best_epoch, scores, weights = self._best
        self._model.load_state_dict(weights)
        return TrainResult(
            run=self._directory.path,
            strategy=self._setup.config.strategy.name,
            epochs=len(self._records),
            metric=self._task.score.name,
            best_epoch=best_epoch,
            scores=scores,
            final_loss=self._records[-1].loss,
            epoch_seconds_median=statistics.median(record.seconds for record in self._records),
            peak_rss_bytes=peak_rss_bytes(),
            seconds=round(time.monotonic() - began, 3),
            losses=tuple(record.loss for record in self._records),
            model=self._model,
        )

    @property
    def _best_epoch(self) -> int:
        return self._best[0] if self._best is not None else 0

    def _batches(self) -> Iterator[FilledBatch]:
        """The filled batches of all epochs in one stream, so that the next epoch's first is ready when this one ends."""
        for epoch in range(1, self._settings.epochs + 1):
            for plan in self._strategy.plans(epoch):
                yield self._filler.fill(plan)

    def _epoch(self, epoch: int, batches: Iterator[FilledBatch]) -> None:
        began, rate, total, shares = time.monotonic(), self._schedule.rate, 0.0, 0
        self._model.train()
        for step in range(self._strategy.steps_per_epoch):
            batch = next(batches)
            loss = self._step(batch, epoch, step + 1)
            share = len(batch.y) if batch.weight is None else 1
            total, shares = total + loss * share, shares + share
            self._watch.step(epoch, step + 1, loss)
        trained = time.monotonic()
        due = epoch % self._settings.evaluate_every == 0 or epoch == self._settings.epochs
        scores = evaluate(self._model, self._inference, self._setup.source, self._task) if due else None
        if scores is not None:
            self._keep_if_best(epoch, scores)
        self._schedule.epoch_ended(scores.val if scores else None)
        record = EpochRecord(
            epoch, total / max(shares, 1), rate, trained - began, time.monotonic() - trained, rss_bytes(), scores
        )
        self._records.append(record)
        self._directory.append_metrics(record.to_json())
        self._watch.epoch(record)

    def _step(self, batch: FilledBatch, epoch: int, step: int) -> float:
        self._optimizer.zero_grad(set_to_none=True)
        given = outputs_of(self._model, batch)
        loss = self._task.loss(given[batch.outputs], batch.y, batch.weight)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise StarlingError(
                f"The loss became {value} in epoch {epoch}, step {step}. Lower --lr (it is {self._schedule.rate:g}), pass "
                f"--clip 1, or look for extreme features. What was learnt before is in {self._directory.path}."
            )
        loss.backward()  # type: ignore[no-untyped-call]
        clip_gradients(self._model, self._setup.config.optimizer.clip)
        self._optimizer.step()
        return value

    def _keep_if_best(self, epoch: int, scores: Scores) -> None:
        """Keep weights that beat all before on validation; without validation nodes, the latest."""
        before = self._best[1].val if self._best is not None else None
        if scores.val is None or self._task.score.better(scores.val, before):
            weights = {name: value.detach().cpu().clone() for name, value in self._model.state_dict().items()}
            self._best = (epoch, scores, weights)
            self._directory.save_weights(weights)


def outputs_of(model: nn.Module, batch: FilledBatch) -> Tensor:
    """What the model gives for the last view's destinations; a graph that serves all layers is passed once."""
    one = all(view.graph is batch.views[0].graph for view in batch.views)
    given: Tensor = model(batch.views[0] if one else batch.views, batch.x)
    return given


def evaluate(model: nn.Module, inference: Inference, source: GraphSource, task: Task) -> Scores:
    """The metric on each split, from exact outputs."""
    assert source.y is not None, "a task checks that there are labels"
    outputs, y = inference.outputs(model), source.y
    nobody = y[:0]
    train, val, test = (task.score.of(outputs, y, source.splits.get(name, nobody)) for name in ("train", "val", "test"))
    return Scores(train, val, test)
