"""What training reports: a record an epoch while it runs, one result at the end, and somebody who watches."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import nn


@dataclass(frozen=True)
class Scores:
    """The metric on each split; None for a split without nodes."""

    train: float | None
    val: float | None
    test: float | None


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

    def to_json(self) -> dict[str, Any]:
        """The line."""
        line = asdict(self)
        return line | (line.pop("scores") or {})


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
    parallel: str | None = None
    sync: str | None = None
    bytes_sent_per_epoch: int = 0

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
            "seconds": self.seconds,
        }


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
