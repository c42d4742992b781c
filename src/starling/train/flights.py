"""Several batches at once: a thread for each, of which only some compute at a time.

What a batch computes from one message to the next is a task. While it waits for a message it gives up its leave to compute; the
message makes it ready again. Each slot has a queue of ready tasks, the oldest step first; a slot whose queue is empty steals from
the others. So no slot is idle while there is work, and a late message of one batch delays no other (docs/engine.md).
"""

from __future__ import annotations

import heapq
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


@dataclass(order=True)
class _Ready:
    """A task that could compute, in the queue of slot `home`; `slot` is the one that took it."""

    step: int
    home: int = field(compare=False)
    slot: int | None = field(default=None, compare=False)


class Slots:
    """Leave to compute, for `count` threads at a time."""

    def __init__(self, count: int) -> None:
        self._idle, self._queues = list(range(count)), [list[_Ready]() for _ in range(count)]
        self._changed = threading.Condition()
        self._here = threading.local()
        self.stolen = 0
        """Tasks that another slot took than the one they were queued for."""

    @contextmanager
    def held(self, step: int) -> Iterator[None]:
        """Compute for a step, as soon as it is its turn."""
        self._here.task = self._take(_Ready(step, step % len(self._queues)))
        try:
            yield
        finally:
            self._give(self._here.task)
            self._here.task = None

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Let others compute while this thread waits for a message; nothing changes for a thread that holds no slot."""
        task: _Ready | None = getattr(self._here, "task", None)
        if task is None:
            yield
            return
        slot = self._give(task)
        self._here.task = None
        try:
            yield
        finally:  # back to the queue of the slot where it was
            self._here.task = self._take(_Ready(task.step, slot))

    def ready(self) -> list[int]:
        """The steps of tasks that wait for a slot."""
        with self._changed:
            return sorted(task.step for queue in self._queues for task in queue)

    def _take(self, task: _Ready) -> _Ready:
        with self._changed:
            heapq.heappush(self._queues[task.home], task)
            self._deal()
            self._changed.wait_for(lambda: task.slot is not None)
        return task

    def _give(self, task: _Ready) -> int:
        assert task.slot is not None
        with self._changed:
            self._idle.append(task.slot)
            self._deal()
        return task.slot

    def _deal(self) -> None:
        """Every idle slot takes the oldest task of its own queue; one whose queue is empty steals the oldest of all others'."""
        for slot in [slot for slot in self._idle if self._queues[slot]]:
            self._start(slot, self._queues[slot])
        for slot in list(self._idle):
            waiting = [queue for queue in self._queues if queue]
            if waiting:
                self._start(slot, min(waiting, key=lambda queue: queue[0]))
                self.stolen += 1
        self._changed.notify_all()

    def _start(self, slot: int, tasks: list[_Ready]) -> None:
        heapq.heappop(tasks).slot = slot
        self._idle.remove(slot)


class Lane(Protocol):
    """Runs tasks one after the other."""

    def submit(self, task: Callable[[], Result]) -> Future[Result]:
        """Run a task after those before it; its result, or its error, in time."""

    def close(self, *, wait: bool) -> None:
        """Begin no further task; wait for the one under way, if asked to."""


class Here:
    """Runs tasks at once, in the thread that gives them."""

    def submit(self, task: Callable[[], Result]) -> Future[Result]:
        """Run a task now."""
        done: Future[Result] = Future()
        try:
            done.set_result(task())
        except Exception as error:
            done.set_exception(error)
        return done

    def close(self, *, wait: bool) -> None:
        """Nothing is under way."""


class Thread:
    """Runs tasks in a thread of its own, which does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._tasks: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._tasks,), name=f"starling-{name}", daemon=True)
        self._thread.start()

    def submit(self, task: Callable[[], Result]) -> Future[Result]:
        """Run a task after those before it."""
        done: Future[Result] = Future()
        self._tasks.put((task, done))
        return done

    def close(self, *, wait: bool) -> None:
        """Drop what has not begun and end the thread."""
        with suppress(queue.Empty):
            while (dropped := self._tasks.get_nowait()) is not None:
                dropped[1].cancel()
        self._tasks.put(None)
        if wait:
            self._thread.join()


def _work(tasks: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]) -> None:
    while (given := tasks.get()) is not None:
        task, done = given
        try:
            done.set_result(task())
        except BaseException as error:  # whatever it is, it belongs to whoever asks for the result
            done.set_exception(error)
        del given, task, done  # a batch is not to be kept until the next one comes


class Flights:
    """At most `count` batches at once: step t flies in lane t mod count, after step t − count has landed."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._lanes: list[Lane] = [Here()] if count == 1 else [Thread(f"flight {lane}") for lane in range(count)]
        self._last: list[Future[Any] | None] = [None] * count

    def start(self, step: int, task: Callable[[], Result]) -> Future[Result]:
        """Begin a step's task."""
        done = self._lanes[step % self.count].submit(task)
        self._last[step % self.count] = done
        return done

    def wait_for_room(self, step: int) -> None:
        """Wait until the lane of a step is free."""
        before = self._last[step % self.count]
        if before is not None:
            wait([before])

    def close(self, *, wait: bool) -> None:
        """End all lanes."""
        for lane in self._lanes:
            lane.close(wait=wait)
