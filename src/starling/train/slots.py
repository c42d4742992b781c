"""Leave to compute: of several threads, only so many compute at a time, and a waiting one lets others go on.

What a batch computes from one message to the next is a task. While it waits for a message it gives up its leave to compute; the
message makes it ready again. Each slot has a queue of ready tasks, the oldest step first; a slot whose queue is empty steals from
the others. So no slot is idle while there is work, and a late message of one batch delays no other (docs/engine.md).
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


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
