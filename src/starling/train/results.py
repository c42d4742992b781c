"""What training reports: a record an epoch while it runs, one result at the end, and somebody who watches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from torch import nn

from starling.comm.ledger import Accounts, Fetched
from starling.engine.data.pipeline import StageAccount
from starling.train.by_worker import WorkerMedians
from starling.train.step_memory import StepMemory


@dataclass(frozen=True)
class Scores:
    """The metric on each split; None for a split without nodes."""

    train: float | None
    val: float | None
    test: float | None


@dataclass(frozen=True)
class WorkerRecord:
    """An epoch of one worker: what its time and traffic went into, its largest memory so far, and what its first step kept."""

    accounts: Accounts
    peak_rss_bytes: int
    memory: StepMemory = field(default_factory=StepMemory)
    stages: tuple[StageAccount, ...] = ()
    """Of the pipeline that prepares batches, where there is one; sent by themselves."""

    def to_numbers(self) -> NDArray[np.int64]:
        """As whole numbers, to be sent: seconds by their bits, bytes and rows as they are."""
        a = self.accounts
        seconds = np.array([a.compute, a.communication, a.waiting, a.reducing]).view(np.int64)
        f = a.fetched
        whole = [self.peak_rss_bytes, self.memory.formula, self.memory.held, f.near, f.cached, f.far, f.far_bytes]
        return np.concatenate([seconds, whole, a.bytes_to, a.rows_by_layer]).astype(np.int64)

    @classmethod
    def from_numbers(cls, numbers: NDArray[np.int64], workers: int) -> Self:
        """What `to_numbers` gave."""
        compute, communication, waiting, reducing = numbers[:4].view(np.float64).tolist()
        peak, formula, held, near, cached, far, far_bytes, *rest = numbers[4:].tolist()
        sent, rows, fetched = rest[:workers], rest[workers:], Fetched(near, cached, far, far_bytes)
        accounts = Accounts(compute, communication, waiting, reducing, tuple(sent), tuple(rows), fetched)
        return cls(accounts, peak, StepMemory(formula, held))

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """From what `to_json` gave."""
        stages = tuple(StageAccount(name, **numbers) for name, numbers in told.get("stages", {}).items())
        memory = StepMemory(told["formula_bytes"], told["held_bytes"])
        return cls(Accounts.from_json(told), told["peak_rss_bytes"], memory, stages)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        memory = {"formula_bytes": self.memory.formula, "held_bytes": self.memory.held}
        stages = {stage.name: {"seconds": stage.seconds, "fill": stage.fill} for stage in self.stages}
        return (
            self.accounts.to_json() | {"peak_rss_bytes": self.peak_rss_bytes} | memory | ({"stages": stages} if stages else {})
        )


@dataclass(frozen=True)
class EpochRecord:
    """A line of ``metrics.jsonl``. `seconds` is training alone; `scores` are there for epochs that were evaluated."""

    epoch: int
    loss: float
    rate: float
    seconds: float
    evaluate_seconds: float
    rss_bytes: int
    scores: Scores | None
    workers: tuple[WorkerRecord, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The line."""
        line = asdict(self)
        return line | (line.pop("scores") or {}) | {"workers": [worker.to_json() for worker in self.workers]}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Self:
        """From a line."""
        scores = Scores(line["train"], line["val"], line["test"]) if "train" in line else None
        plain = ("epoch", "loss", "rate", "seconds", "evaluate_seconds", "rss_bytes")
        workers = tuple(WorkerRecord.from_json(told) for told in line["workers"])
        return cls(**{name: line[name] for name in plain}, scores=scores, workers=workers)


@dataclass(frozen=True)
class TrainResult:
    """How a run went; metrics are those of the best epoch, whose weights `model` has."""

    run: Path
    strategy: str
    epochs: int
    metric: str
    best_epoch: int
    scores: Scores
    final_loss: float
    epoch_seconds_median: float
    peak_rss_bytes: int
    seconds: float
    losses: tuple[float, ...] = field(repr=False)
    model: nn.Module = field(repr=False)
    workers: int = 1
    parallel: str = "hybrid"
    sync: str = "gradient"
    bytes_sent_per_epoch: int = 0
    formula_bytes: int = 0
    """BDS-GCN's (3 · n_in + n_bd) · d of the largest worker's step (step_memory.py), and what it kept."""
    held_bytes: int = 0
    embeddings: int = 0
    """Learnt numbers a node."""
    cache_hit_rate: float | None = None
    """The share of other hosts' feature rows that were in the cache; None where none was asked for."""
    by_worker: tuple[WorkerMedians, ...] = field(default=(), repr=False)
    """What each worker did in a typical epoch, by rank."""

    def to_json(self) -> dict[str, Any]:
        """The object that ``train --json`` prints."""
        return {
            "run": str(self.run),
            "workers": self.workers,
            "strategy": self.strategy,
            "parallel": self.parallel,
            "sync": self.sync,
            "epochs": self.epochs,
            "metric": self.metric,
            "best_epoch": self.best_epoch,
            **asdict(self.scores),
            "final_loss": self.final_loss,
            "epoch_seconds_median": self.epoch_seconds_median,
            "peak_rss_bytes": self.peak_rss_bytes,
            "bytes_sent_per_epoch": self.bytes_sent_per_epoch,
            "formula_bytes": self.formula_bytes,
            "held_bytes": self.held_bytes,
            "embeddings": self.embeddings,
            "cache_hit_rate": self.cache_hit_rate,
            "seconds": self.seconds,
            "by_worker": [worker.to_json() for worker in self.by_worker],
        }

    @classmethod
    def from_json(cls, summary: Mapping[str, Any], losses: tuple[float, ...], model: nn.Module) -> Self:
        """From what `to_json` gave."""
        given = dict(summary)
        scores = Scores(given.pop("train"), given.pop("val"), given.pop("test"))
        by_worker = tuple(WorkerMedians.from_json(worker) for worker in given.pop("by_worker"))
        return cls(**given | {"run": Path(given["run"])}, by_worker=by_worker, scores=scores, losses=losses, model=model)


class Watcher(Protocol):
    """Somebody who is told how training goes."""

    def begin(self, epochs: int, steps: int, metric: str) -> None:
        """Training begins: so many epochs of so many steps."""

    def step(self, epoch: int, step: int, loss: float) -> None:
        """A step is done."""

    def epoch(self, record: EpochRecord) -> None:
        """An epoch is done."""


class Nobody:
    """Watches nothing."""

    def begin(self, epochs: int, steps: int, metric: str) -> None:
        """Look away."""

    def step(self, epoch: int, step: int, loss: float) -> None:
        """Look away."""

    def epoch(self, record: EpochRecord) -> None:
        """Look away."""
