"""Progress bars on standard error: shown after a second, only on a terminal, never with --quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TaskID, TextColumn
from rich.progress import Task as RichTask
from rich.text import Text

from starling.core.memory import format_bytes
from starling.core.progress import SILENT, Task
from starling.core.progress import Progress as ProgressSink

_SHOW_AFTER_SECONDS = 1.0


def progress(*, quiet: bool) -> ProgressSink:
    """Where a verb reports progress: bars on a terminal, silence elsewhere."""
    return _Bars() if sys.stderr.isatty() and not quiet else SILENT


class _Rate(ProgressColumn):
    """Units done, units a second since the task began, and the time left at that rate."""

    def render(self, task: RichTask) -> Text:
        unit, elapsed = task.fields["unit"], time.monotonic() - task.fields["began"]
        rate = task.completed / elapsed
        amount = format_bytes if unit == "bytes" else _short
        line = f"{amount(task.completed)} {'' if unit == 'bytes' else unit}".rstrip() + f", {amount(rate)}/s"
        if task.total and rate > 0:
            left = round((task.total - task.completed) / rate)
            line += f", {left // 60}:{left % 60:02d} left"
        return Text(line, no_wrap=True)


class _Bars:
    """One bar per task; a task that ends within a second is never seen."""

    @contextmanager
    def task(self, name: str, total: int | None = None, unit: str = "edges") -> Iterator[Task]:
        bar = _LateBar(name, total, unit)
        try:
            yield bar
        finally:
            bar.close()


class _LateBar:
    def __init__(self, name: str, total: int | None, unit: str) -> None:
        self._name, self._total, self._unit = name, total, unit
        self._began, self._done = time.monotonic(), 0
        self._bars: Progress | None = None
        self._task: TaskID | None = None

    def advance(self, amount: int) -> None:
        self._done += amount
        if self._bars is None and time.monotonic() - self._began > _SHOW_AFTER_SECONDS:
            self._open()
        elif self._bars is not None and self._task is not None:
            self._bars.update(self._task, completed=self._done)

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()

    def _open(self) -> None:
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            _Rate(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bars.add_task(
            self._name, total=self._total, completed=self._done, unit=self._unit, began=self._began
        )
        self._bars.start()


def _short(count: float) -> str:
    for unit in ("", "k", "M"):
        if count < 1000:
            return f"{count:.1f}{unit}" if unit else f"{count:.0f}"
        count /= 1000
    return f"{count:.1f}G"
