"""The training bar on standard error: epochs done, loss, metric, rate and time left; only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from starling.train.results import EpochRecord, Watcher


@contextmanager
def training_progress(*, quiet: bool) -> Iterator[Watcher | None]:
    """A watcher that draws a bar, or None where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    bar = TrainingBar(Console(stderr=True))
    try:
        yield bar
    finally:
        bar.close()


class TrainingBar:
    """Draws how training goes."""

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            SpinnerColumn(),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.fields[loss]}{task.fields[scores]}{task.fields[pace]}  left"),
            TimeRemainingColumn(compact=True),  # all of it fits into 80 columns
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._steps, self._metric = 1, ""

    def begin(self, epochs: int, steps: int, metric: str) -> None:
        """Show an empty bar."""
        self._steps, self._metric = steps, metric
        self._task = self._bars.add_task("", total=epochs, loss="", scores="", pace="")
        self._bars.start()

    def step(self, epoch: int, step: int, loss: float) -> None:
        """Move by a step's share of an epoch."""
        if self._task is not None and step < self._steps:
            self._bars.update(self._task, completed=epoch - 1 + step / self._steps, loss=f"loss {loss:.4f}")

    def epoch(self, record: EpochRecord) -> None:
        """Move to the end of the epoch and show its numbers."""
        if self._task is None:
            return
        seconds = record.seconds + record.evaluate_seconds
        pace = f"  {1 / seconds:.3g} epochs/s" if seconds else ""
        if record.scores is not None and record.scores.val is not None:
            self._bars.update(self._task, scores=f"  val {self._metric} {record.scores.val:.4f}")
        self._bars.update(self._task, completed=record.epoch, loss=f"loss {record.loss:.4f}", pace=pace)

    def close(self) -> None:
        """Take the bar away."""
        self._bars.stop()
