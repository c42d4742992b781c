"""`--sync average`: a model for each part, trained alone for some epochs, then the mean of them all (CATGNN §3.3).

A round is `every` epochs, or one of `rounds` equal shares of an epoch. Every part begins it with the common weights and trains on
its own nodes and its halo; the models are averaged by training nodes, or edges; the rows that parts have learnt are shown to the
others; the mean is, if asked for, corrected on global batches, and after epochs it is evaluated, exactly, on the whole graph. A
worker takes its parts in turn, so results do not depend on how many workers there are: models belong to parts.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from starling.comm.first import from_first
from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.core.allocator import release_freed_memory
from starling.core.memory import peak_rss_bytes, rss_bytes
from starling.engine.data.part_source import PartSource
from starling.plan.background import Background
from starling.train.averaging.correction import GlobalBatches
from starling.train.averaging.model_average import ModelSum, carried, flatten, unflatten
from starling.train.averaging.parts_work import PartsWork, Share
from starling.train.averaging.row_turns import RowTurns
from starling.train.journal import Journal
from starling.train.learning import Learning, schedule_of, updates_of
from starling.train.optimizers import clock_of, make_optimizer, moments_of, remembered, state_with
from starling.train.results import EpochRecord, WorkerRecord
from starling.train.run_directory import SCRATCH
from starling.train.setup import Setup
from starling.train.steps import Steps

_MEAN, _CORRECTED, _LOSSES, _FOLDER, _DONE, _SHOWN = range(6)
"""Messages of a round."""
_CORRECTION, _ALL = -1, -2
"""In place of a part: whose optimiser moves the mean, and what the optimisers of all parts remember in common."""


def learn_by_part(setup: Setup, team: Team) -> Learning:
    """Every part moves weights of its own, alone; the schedule turns a clock, since each of them goes through the same epochs."""
    optimizer = make_optimizer(setup.model, setup.config.optimizer)
    clock = clock_of(optimizer)
    schedule = schedule_of(setup, clock)
    clock.step()  # of nothing: a schedule expects that steps come first
    return Learning(optimizer, schedule, updates_of(setup, optimizer, Team()))


class AveragingLoop:
    """A run of rounds under way."""

    def __init__(self, journal: Journal, learning: Learning) -> None:
        setup = journal.setup
        assert isinstance(setup.work, PartsWork)
        self._journal, self._team, self._settings = journal, journal.team, setup.config.run
        self._schedule, self._optimizer, self._steps = learning.schedule, learning.optimizer, Steps(journal, learning)
        self._model, self._score, self._parts, self._sync = setup.model, setup.task.score, setup.work, setup.config.sync
        self._moments: defaultdict[int, Any] = defaultdict(lambda: defaultdict(dict))
        self._carried, self._round = carried(setup.model), 0
        self._shared = remembered(self._optimizer) if self._sync.moments == "average" else []
        if self._sync.moments == "average":
            self._carried += self._shared
            self._moments[_ALL] = self._optimizer.state
        self._rows = RowTurns(setup, journal.team)
        self._global: GlobalBatches | None = None
        self._evaluated = 0

    def epochs(self, after: int = 0) -> Generator[int]:
        """Train round by round, or fewer where validation stops getting better; gives the last epoch of each when it is done."""
        epochs, every = self._settings.epochs, self._sync.every or 1
        with self._scratch() as folder:
            self._parts.begin(folder)
            self._rows.begin(folder, self._tag(_SHOWN))
            if self._sync.correct and self._team.rank == 0:
                plan = self._parts.plan
                self._global = GlobalBatches(self._parts.source, plan.layers, plan.seed, plan.batch_size)
            release_freed_memory()
            for first in range(after + 1, epochs + 1, every):
                if self._journal.out_of_patience:
                    break
                last = min(first + every - 1, epochs)
                self._train_epochs(range(first, last + 1))
                yield last

    def state(self) -> dict[str, Any]:
        """What all workers hold alike, and what moves the mean at the first."""
        return {
            "schedule": self._schedule.state(),
            "round": self._round,
            "evaluated": self._evaluated,
            "shared moments": self._shared,
            "correction": moments_of(self._optimizer, self._moments[_CORRECTION]),
        }

    def own_state(self) -> dict[str, Any]:
        """What the optimisers of this worker's parts remember."""
        parts = [part for part in self._moments if part not in (_ALL, _CORRECTION)]
        moments = {part: moments_of(self._optimizer, self._moments[part]) for part in parts}
        return {"moments": moments, "embedding steps": dict(self._rows.steps)}

    def restore(self, state: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        """Go on from there; the model has its weights already."""
        self._schedule.restore(state["schedule"])
        self._round, self._evaluated = state["round"], state["evaluated"]
        for mine, kept in zip(self._shared, state["shared moments"], strict=True):
            mine.copy_(kept)  # in place: they are carried along with the weights
        for part, moments in {**own["moments"], _CORRECTION: state["correction"]}.items():
            self._moments[part] = state_with(self._optimizer, moments)
        self._rows.steps.update(own["embedding steps"])

    def _train_epochs(self, epochs: range) -> None:
        """The epochs of a round, or the rounds of an epoch; then evaluate."""
        began = time.monotonic()
        self._team.ledger.close()  # what evaluation took is not this round's
        self._model.train()
        rates = self._rates(len(epochs))
        sums = np.zeros((len(self._parts.trained), len(epochs), 2))
        for number in range(self._sync.rounds):
            sums += self._train_round(epochs, Share(number, self._sync.rounds), rates)
        means = self._mean_losses(sums[..., 0] / np.maximum(sums[..., 1], 1))
        self._record(epochs, rates, means, time.monotonic() - began)

    def _train_round(self, epochs: range, share: Share, rates: list[float]) -> NDArray[np.float64]:
        """Train every own part from the common weights, average, correct; sums of losses and their shares [parts, epochs, 2]."""
        team, sizes, own = self._team, self._parts.sizes, self._parts.trained
        self._round += 1
        common, models = flatten(self._carried), ModelSum(team, sum(value.numel() for value in self._carried))
        sums = np.zeros((len(own), len(epochs), 2))
        with self._parts.shelf.turns(own) as parts:
            for number, part in enumerate(parts):
                unflatten(common, self._carried)
                sums[number] = self._train_part(part, epochs, share, rates)
                models.add(sizes[part.part], flatten(self._carried))
                seen = (share.number * len(own) + number + 1) // share.rounds
                self._journal.watch.step(epochs.start, seen, sums[number, -1, 0] / max(sums[number, -1, 1], 1))
                del part  # before the next one is read
                if self._parts.shelf.comes_and_goes:
                    release_freed_memory()  # what one part leaves in pieces would add up over many
        team.phase.enter(f"averaging after epoch {epochs[-1]}")
        with team.ledger.time("reducing"):
            unflatten(models.mean(self._tag(_MEAN), sum(sizes)), self._carried)
        self._rows.show(self._tag(_SHOWN))  # a mean takes everybody's models: all parts have had their turn
        if self._sync.correct:
            self._correct(epochs[-1], rates[-1])
        return sums

    def _train_part(self, part: PartSource, epochs: range, share: Share, rates: list[float]) -> list[tuple[float, float]]:
        """A share of some epochs on one part; for each the sum of its losses, and of their shares."""
        sums, lessons = [], self._parts.lessons(part)
        if self._sync.moments == "reset":
            self._moments.pop(part.part, None)
        self._optimizer.state = self._moments[_ALL if self._sync.moments == "average" else part.part]
        with Background(lessons.batches(epochs, share), stage="preparing batches") as batches:
            for epoch, rate in zip(epochs, rates, strict=True):
                self._set_rate(rate)
                move = self._rows.moved_by(part.part, rate)
                sums.append(self._steps.of_part(epoch, lessons.steps(share), batches, move, place=f"part {part.part}, "))
        return sums

    def _correct(self, epoch: int, rate: float) -> None:
        """Move the mean by some steps on global batches, at the first worker; the others get its weights."""
        team = self._team
        learnt = carried(self._model)  # moments stay as they were averaged
        flat = torch.empty(sum(value.numel() for value in learnt), dtype=torch.float64)
        if team.rank == 0:
            assert self._global is not None
            team.phase.enter(f"correction after epoch {epoch}")
            self._optimizer.state = self._moments[_CORRECTION]
            self._set_rate(rate)
            batches = (self._global.batch(self._round, step) for step in range(self._sync.correct_steps))
            with Background(batches, stage="preparing global batches") as ready:
                self._steps.beside(epoch, ready)
            flat = flatten(learnt).double()
        unflatten(from_first(team, self._tag(_CORRECTED), flat), learnt)

    def _rates(self, epochs: int) -> list[float]:
        """The learning rate of each epoch of a round; the schedule is left at the last one, which ends with the evaluation."""
        rates = [self._schedule.rate]
        for _ in range(epochs - 1):
            self._schedule.epoch_ended(None)
            rates.append(self._schedule.rate)
        return rates

    def _set_rate(self, rate: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = rate

    def _mean_losses(self, mine: NDArray[np.float64]) -> list[float]:
        """The loss of each epoch over all parts, weighted by training targets and added in the order of parts."""
        told = self._team.all_lists(self._tag(_LOSSES), mine.reshape(-1).view(np.int64))
        losses = np.concatenate(told).view(np.float64).reshape(-1, mine.shape[1])
        sizes = self._parts.sizes
        share = np.array([size for size in sizes if size]) / sum(sizes)
        means: list[float] = (share[:, None] * losses).sum(axis=0).tolist()
        return means

    def _record(self, epochs: range, rates: list[float], losses: list[float], seconds: float) -> None:
        """Evaluate, if it is time, and write a line for every epoch of a round; each took its share of the round's time."""
        began, last, accounts = time.monotonic(), epochs[-1], self._team.ledger.close()
        due = last - self._evaluated >= self._settings.evaluate_every or last == self._settings.epochs
        self._team.phase.enter(f"evaluation after epoch {last}")
        scores = self._parts.scores(self._model, self._score) if due else None
        if scores is not None:
            self._evaluated = last
            self._journal.keep_if_best(last, scores)
        self._schedule.epoch_ended(scores.val if scores else None)
        evaluating = time.monotonic() - began
        mine = WorkerRecord(accounts, peak_rss_bytes(), self._steps.memory)  # evaluation's memory counts, its traffic does not
        workers = self._journal.of_team(self._round, mine)
        for epoch, rate, loss in zip(epochs, rates, losses, strict=True):
            ended = epoch == last
            self._journal.write(
                EpochRecord(
                    epoch,
                    loss,
                    rate,
                    seconds / len(epochs),
                    evaluating if ended else 0.0,
                    rss_bytes(),
                    scores if ended else None,
                    workers,
                )
            )

    def _tag(self, call: int) -> int:
        return make_tag(Channel.GRADIENTS, self._round, call)

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """A folder in the run directory for all workers; it is gone when the block is left."""
        directory = self._journal.directory
        folder = Path() if directory is None else directory.path.resolve() / SCRATCH
        name = str(folder).encode() if self._team.rank == 0 else b""
        if self._team.rank == 0:
            folder.mkdir()
        told = self._team.all_lists(self._tag(_FOLDER), np.frombuffer(name, np.uint8))[0]
        try:
            yield Path(told.astype(np.uint8).tobytes().decode())
            self._team.all_lists(self._tag(_DONE), np.empty(0, np.int64))  # nobody reads from it any more
        finally:
            if self._team.rank == 0:
                shutil.rmtree(folder, ignore_errors=True)
