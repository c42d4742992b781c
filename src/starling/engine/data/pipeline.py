"""A chain of named stages, each in a thread of its own, that prepares steps ahead of whoever takes them (DistDGLv2 §5.5).

    with Pipeline(1000, [Stage("schedule", schedule), Stage("sample", sample, depth=4), Stage("fetch", fetch)]) as batches:
        for batch in batches: ...

The first stage gets the numbers 0, 1, 2, …, every other what the one before it gave. A stage keeps the order of items; it begins
one only when there is room for the result. At most `depth` results of a stage wait for the next stage, and no stage begins an item
while `most_bytes` are under way, unless it is the oldest: so memory is bounded, and the oldest item never waits for a younger one,
which is why stages that talk to other workers cannot deadlock. Kernels hold no GIL, so stages really run beside one another.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from starling.plan.background import named_after

Item = TypeVar("Item")

_FAREWELL = 5.0
"""Seconds that `close` gives a thread that may be waiting for a message which will never come."""


@dataclass(frozen=True)
class Stage:
    """One stage: its work, and how many of its results may wait. Results with an attribute `nbytes` count as so many bytes."""

    name: str
    work: Callable[[Any], Any]
    depth: int = 2

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"the depth of the stage '{self.name}' must be at least 1, got {self.depth}")


@dataclass(frozen=True)
class StageAccount:
    """How busy a stage was, and how full: seconds at work, and the mean of waiting results whenever one was taken."""

    name: str
    seconds: float
    fill: float


@dataclass(eq=False)
class _Line:
    """A stage at work: what waits behind it."""

    stage: Stage
    ready: deque[tuple[int, Any]] = field(default_factory=deque)
    begun: int = 0
    seconds: float = 0.0
    waiting: int = 0
    taken: int = 0

    def take(self) -> tuple[int, Any]:
        self.waiting += len(self.ready)
        self.taken += 1
        return self.ready.popleft()


@dataclass(frozen=True)
class _Failed:
    """An error on its way to whoever takes the results."""

    stage: str
    error: BaseException


class Pipeline(Generic[Item]):
    """An iterator over the results of the last stage, in order; leaving the block ends all threads.

    `agree`: where stages talk to other workers, these must not stop at different items. It is called once by `close`, with the
    number of items begun here, and gives the largest such number of any worker; all items up to it are still prepared, and
    dropped. `around` is entered by every thread for as long as it works.
    """

    def __init__(
        self,
        count: int,
        stages: Sequence[Stage],
        *,
        most_bytes: int | None = None,
        agree: Callable[[int], int] | None = None,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        if not stages:
            raise ValueError("a pipeline has at least one stage")
        self._count, self._most_bytes, self._agree = count, most_bytes, agree
        self._lines = [_Line(stage) for stage in stages]
        self._changed = threading.Condition()
        self._sizes: dict[int, int] = {}
        self._given = 0
        self._held, self._draining, self._stopped = False, False, False
        self._threads = [
            threading.Thread(target=self._run, args=(number, around), name=f"starling-{line.stage.name}", daemon=True)
            for number, line in enumerate(self._lines)
        ]
        for thread in self._threads:
            thread.start()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        last = self._lines[-1]
        with self._changed:
            self._sizes.pop(self._given - 1, None)  # whoever asks for the next one is done with this
            self._changed.notify_all()
            self._changed.wait_for(lambda: last.ready or self._given >= self._count or self._stopped)
            if not last.ready:
                raise StopIteration
            _, item = last.take()
            self._given += 1
            self._changed.notify_all()
        if isinstance(item, _Failed):
            self._stop()
            raise named_after(item.stage, item.error)
        result: Item = item
        return result

    def accounts(self) -> tuple[StageAccount, ...]:
        """What the stages did since the last time this was asked; an item counts for the time in which it was finished."""
        with self._changed:
            found = [StageAccount(x.stage.name, x.seconds, x.waiting / max(x.taken, 1)) for x in self._lines]
            for line in self._lines:
                line.seconds, line.waiting, line.taken = 0.0, 0, 0
        return tuple(found)

    def close(self, *, failed: bool = False) -> None:
        """End all threads. Unless this worker has `failed`, items that other workers have begun are prepared with them first."""
        if self._agree is not None and not failed and not self._stopped:
            self._drain(self._agree)
        self._stop()
        end = time.monotonic() + _FAREWELL
        for thread in self._threads:
            thread.join(max(end - time.monotonic(), 0.0) if failed else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: Any) -> None:
        self.close(failed=failure[0] is not None)

    # ---- inside ----

    def _drain(self, agree: Callable[[int], int]) -> None:
        with self._changed:
            self._held = True  # nothing new is begun while workers find out who has begun the most
            begun = self._lines[0].begun
        last = agree(begun)
        with self._changed:
            self._count, self._held, self._draining = last, False, True
            self._lines[-1].ready.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _stop(self) -> None:
        with self._changed:
            self._stopped = True
            for line in self._lines:
                line.ready.clear()
            self._changed.notify_all()

    def _run(self, number: int, around: Callable[[], AbstractContextManager[None]]) -> None:
        line = self._lines[number]
        with around():
            while (taken := self._next(number)) is not None:
                place, item = taken
                del taken
                began = time.monotonic()
                if not isinstance(item, _Failed):
                    try:
                        item = line.stage.work(item)
                    except BaseException as error:  # whatever it is, it belongs to whoever takes the results
                        item = _Failed(line.stage.name, error)
                ended = isinstance(item, _Failed)
                self._put(number, place, item, time.monotonic() - began)
                del item  # not to be kept until the next one comes
                if ended:
                    return

    def _next(self, number: int) -> tuple[int, Any] | None:
        """The next item of a stage, as soon as it may be begun; None when there will be none."""
        line = self._lines[number]
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._is_over(number) or self._may_begin(number))
            if self._stopped or self._is_over(number):
                return None
            line.begun += 1
            if number == 0:
                return line.begun - 1, line.begun - 1
            taken = self._lines[number - 1].take()
            self._changed.notify_all()
            return taken

    def _is_over(self, number: int) -> bool:
        return self._lines[number].begun >= self._count and not (number == 0 and self._held)

    def _may_begin(self, number: int) -> bool:
        line = self._lines[number]
        if number == 0 and self._held:
            return False
        if number > 0 and not self._lines[number - 1].ready:
            return False
        if self._draining:
            return True
        if len(line.ready) >= line.stage.depth:
            return False
        oldest = line.begun == self._given
        return oldest or self._most_bytes is None or sum(self._sizes.values()) < self._most_bytes

    def _put(self, number: int, place: int, item: Any, seconds: float) -> None:
        line = self._lines[number]
        with self._changed:
            line.seconds += seconds
            if not self._stopped and not (self._draining and number == len(self._lines) - 1):
                line.ready.append((place, item))
                self._sizes[place] = getattr(item, "nbytes", 0)
            self._changed.notify_all()
