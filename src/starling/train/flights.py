"""Several batches at once: a lane for each, which is a thread of its own unless there is but one.

Which of the threads compute at a time is for `slots.py` to say.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Lane(Protocol):
    """Runs tasks one after the other."""

    def submit(self, task: Callable[[], Result]) -> Future[Result]:
        """Run a task after those before it; its result, or its error, in time."""

    def close(self, *, wait: bool) -> None:
        """Begin no further task; wait for the one under way, if asked to."""


class CallersLane:
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


class ThreadLane:
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
        self._lanes: list[Lane] = [CallersLane()] if count == 1 else [ThreadLane(f"flight {lane}") for lane in range(count)]
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
