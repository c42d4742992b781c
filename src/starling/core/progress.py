"""Progress as library code sees it: name a task, say how far it is. Showing it is the command line's business."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Task(Protocol):
    """One piece of work under way."""

    def advance(self, amount: int) -> None:
        """Say that `amount` more units are done."""


class Progress(Protocol):
    """Where library code reports what it is doing."""

    def task(self, name: str, total: int | None = None, unit: str = "edges") -> AbstractContextManager[Task]:
        """Open a task of `total` units (None when nobody knows)."""


class _SilentTask:
    def advance(self, amount: int) -> None:
        pass


class SilentProgress:
    """Shows nothing; the default everywhere in the library."""

    @contextmanager
    def task(self, name: str, total: int | None = None, unit: str = "edges") -> Iterator[Task]:
        """Open a task that nobody watches."""
        yield _SilentTask()


SILENT: Progress = SilentProgress()
