"""From filled batches to updates of the weights: what every kind of run does in an epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

from torch import Tensor, nn

from starling.core.errors import StarlingError
from starling.engine.fill import FilledBatch
from starling.train.journal import Journal
from starling.train.learning import Learning
from starling.train.step_memory import Held, StepMemory, formula_bytes
from starling.train.sync import Step


class Steps:
    """Computes the steps of epochs; `memory` is what the first one of the latest epoch kept."""

    def __init__(self, journal: Journal, learning: Learning) -> None:
        self.memory = StepMemory()
        self._task, self._team, self._directory = journal.setup.task, journal.team, journal.directory
        self._updates, self._schedule = learning.updates, learning.schedule

    def of_epoch(
        self,
        epoch: int,
        count: int,
        batches: Iterator[FilledBatch],
        after: Callable[[int, float], None] = lambda _step, _loss: None,
    ) -> float:
        """Compute `count` steps, each when its batch is there; gives the mean of their losses, by their shares.

        `after` hears of each step that is done.
        """
        total, shares = self.of_part(epoch, range(count), batches, after)
        return total / max(shares, 1)

    def of_part(
        self,
        epoch: int,
        numbers: range,
        batches: Iterator[FilledBatch],
        after: Callable[[int, float], None] = lambda _step, _loss: None,
        *,
        place: str = "",
    ) -> tuple[float, float]:
        """Compute some steps of an epoch; gives the sum of their losses, each times its share, and the sum of shares.

        `place` says where in the epoch this is, for messages of failures.
        """
        shares: list[float] = []

        def steps() -> Iterator[Step]:
            for step in range(numbers.start + 1, numbers.stop + 1):
                self._team.phase.enter(f"epoch {epoch}, {place}step {step}")
                batch = next(batches)
                shares.append(batch.share)
                for peer, sent in batch.sent.items():
                    self._team.ledger.sent(peer, sent)
                yield partial(self._loss if shares[1:] else self._measured_loss, batch)

        total = 0.0
        for number, loss in enumerate(self._updates.run(steps())):
            step = numbers.start + 1 + number
            self._check(loss, epoch, step)
            after(step, loss)
            total += loss * shares[number]
        return total, sum(shares)

    def beside(self, epoch: int, batches: Iterator[FilledBatch]) -> None:
        """Compute steps that are no part of an epoch's loss."""
        for step, loss in enumerate(self._updates.run(partial(self._loss, batch) for batch in batches), 1):
            self._check(loss, epoch, step)

    def _loss(self, batch: FilledBatch, model: nn.Module) -> Tensor:
        return self._task.loss(self._task.given(model, batch), batch.y, batch.weight)

    def _measured_loss(self, batch: FilledBatch, model: nn.Module) -> Tensor:
        with Held(model) as held:
            loss = self._loss(batch, model)
        self.memory = StepMemory(formula_bytes(model, batch.views), held.bytes)
        return loss

    def _check(self, loss: float, epoch: int, step: int) -> None:
        """Stop at a loss that is no number: nothing can be learnt any more."""
        if not math.isfinite(loss):
            directory = self._directory if self._team.size == 1 else None  # for a team, whoever started it speaks
            where = "" if directory is None else f" {directory.remains}".rstrip()
            raise StarlingError(
                f"The loss became {loss} in epoch {epoch}, step {step}. Lower --lr (it is {self._schedule.rate:g}), pass "
                f"--clip 1, or look for extreme features.{where}"
            )
