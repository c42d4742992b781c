"""What a worker computes where models are averaged: each of its parts by itself, and an exact evaluation of all of them."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from torch import nn

from starling.core.errors import InputError
from starling.engine.data.part_source import PartSource
from starling.engine.data.parts_source import PartsSource
from starling.engine.data.shelf import Shelf
from starling.engine.fill import FilledBatch
from starling.plan.mini import Mini
from starling.plan.strategy import Strategy
from starling.train.metrics import Score
from starling.train.results import Scores


@dataclass(frozen=True)
class PartsPlan:
    """How each part is trained on: the strategy and its settings, the model's layers, and the seed of all choices."""

    strategy: str
    settings: Strategy.Settings
    layers: int
    seed: int
    device: str
    reuse: bool

    @property
    def batch_size(self) -> int | None:
        """Targets of a mini-batch, where one was asked for."""
        return self.settings.batch_size if isinstance(self.settings, Mini.Settings) else None


@dataclass(frozen=True)
class Share:
    """One of an epoch's `rounds`, by number: the steps from one averaging to the next."""

    number: int
    rounds: int

    def of(self, steps: int) -> range:
        """Which of a part's steps these are; a part with fewer steps than rounds has none in some."""
        return range(self.number * steps // self.rounds, (self.number + 1) * steps // self.rounds)


class Lessons(ABC):
    """Steps on one part: its own targets, their neighbours in the part and its halo, nothing else."""

    @property
    @abstractmethod
    def steps_per_epoch(self) -> int:
        """How many steps an epoch has."""

    @abstractmethod
    def batch(self, epoch: int, step: int) -> FilledBatch:
        """One of them, ready to compute."""

    def steps(self, share: Share) -> range:
        """The steps of a share of an epoch."""
        return share.of(self.steps_per_epoch)

    def batches(self, epochs: range, share: Share) -> Iterator[FilledBatch]:
        """The filled batches of a share of each of some epochs."""
        for epoch in epochs:
            for step in self.steps(share):
                yield self.batch(epoch, step)


class Evaluation(Protocol):
    """Exact scores of all parts."""

    def scores(self, model: nn.Module, score: Score) -> Scores:
        """The metric on each split; the same numbers on every worker."""


@dataclass(eq=False)
class PartsWork(ABC):
    """A worker's parts, in turn."""

    source: PartsSource
    shelf: Shelf
    plan: PartsPlan
    memory: int
    """Of evaluation, beside the parts themselves."""
    _lessons: dict[int, Lessons] = field(default_factory=dict, init=False)
    _evaluation: Evaluation | None = field(default=None, init=False)

    @property
    @abstractmethod
    def sizes(self) -> Sequence[int]:
        """Training targets of every part of the graph: what its model weighs."""

    @abstractmethod
    def _made(self, part: PartSource) -> Lessons:
        """How to train on one part."""

    @abstractmethod
    def _evaluate_in(self, folder: Path) -> Evaluation:
        """The exact evaluation of all parts, with a folder for scratch files that all workers see."""

    @property
    def trained(self) -> Sequence[int]:
        """Own parts with training targets; a part without has a model of weight zero, which need not be trained."""
        return [part for part in self.source.mine if self.sizes[part]]

    @property
    def steps_per_epoch(self) -> int:
        """A round goes from part to part."""
        return max(1, len(self.trained))

    def begin(self, folder: Path) -> None:
        """Make ready, with a folder for scratch files that all workers see."""
        _check_shared(folder, self.source)
        self._evaluation = self._evaluate_in(folder)

    def lessons(self, part: PartSource) -> Lessons:
        """How to train on one part: made when it has its turn, and kept where parts stay in memory."""
        if part.part in self._lessons:
            return self._lessons[part.part]
        found = self._made(part)
        if not self.shelf.comes_and_goes:
            self._lessons[part.part] = found
        return found

    def scores(self, model: nn.Module, score: Score) -> Scores:
        """The metric on each split, from exact outputs; the same numbers on every worker."""
        assert self._evaluation is not None, "it has begun"
        return self._evaluation.scores(model, score)


def _check_shared(folder: Path, source: PartsSource) -> None:
    """Refuse a folder that is not one and the same for all workers; everybody asks.

    Rows of a layer pass from worker to worker through its files. A folder of the same name on another machine would give zeros.
    """
    mark = folder / "mark"
    if source.team.rank == 0:
        mark.write_bytes(uuid.uuid4().bytes)
    mine = mark.read_bytes() if source.team.rank == 0 else b""
    told = source.team.all_lists(source.calls.next_tag(), np.frombuffer(mine, np.uint8))[0]
    if not mark.is_file() or mark.read_bytes() != told.astype(np.uint8).tobytes():
        raise InputError(
            f"Workers that average models share scratch files in the run directory, and worker {source.team.rank} does not see "
            f"{folder} of worker 0. Pass a --run directory that all machines share, or --sync gradient."
        )
