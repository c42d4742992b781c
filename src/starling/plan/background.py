"""Prepare the next items in a background thread while the caller works on the last one.

    with Background(strategy.plans(epoch), stage="sampling") as plans:
        for plan in plans: ...

Kernels hold no GIL, so a background stage really runs beside training. At most `depth` items wait. Leaving the block early stops
the thread, and so does forgetting the object; an error in the thread is raised where the caller waits.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from starling.core.errors import StarlingError

Item = TypeVar("Item")


class _Failed:
    """An error on its way to the caller."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Finished:
    """The end of the items."""


class Background(Generic[Item]):
    """An iterator over `items` that is `depth` items ahead of its caller. Order is kept; `stage` names it in errors.

    One item ahead keeps both sides busy where items take about the same time; each more costs the memory of an item.
    """

    def __init__(self, items: Iterable[Item], *, stage: str, depth: int = 1) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, got {depth}")
        self.stage = stage
        self._ready: queue.Queue[Item | _Failed | _Finished] = queue.Queue()
        self._room = threading.Semaphore(depth)
        self._stopping = threading.Event()
        # the thread knows nothing of this object, so that one which is forgotten is collected, and stops its thread
        given = (items, self._ready, self._room, self._stopping)
        self._thread = threading.Thread(target=_work, args=given, name=f"starling-{stage}", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if self._stopping.is_set():
            raise StopIteration
        item = self._ready.get()
        if isinstance(item, _Finished):
            self.close()
            raise StopIteration
        if isinstance(item, _Failed):
            self.close()
            raise named_after(self.stage, item.error)
        self._room.release()
        return item

    def close(self) -> None:
        """Stop the thread and wait for the item it is at; items that were ready are dropped."""
        self._stopping.set()
        self._room.release()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_thread"):
            self._stopping.set()
            self._room.release()


def named_after(stage: str, error: BaseException) -> BaseException:
    """The error of a background stage with the stage's name; errors of our own keep their type, sentence and exit status."""
    if isinstance(error, StarlingError):
        error.stage = error.stage or stage  # the innermost, if a stage has stages of its own
        return error
    if isinstance(error, Exception):
        said = " ".join(str(error).split())
        named = StarlingError(f"The background stage '{stage}' failed: {type(error).__name__}: {said}")
        named.__cause__ = error
        return named
    return error


def _work(
    items: Iterable[Item],
    ready: queue.Queue[Item | _Failed | _Finished],
    room: threading.Semaphore,
    stopping: threading.Event,
) -> None:
    """Put items into `ready` as long as there is room and nobody says stop; then the end, or the error."""
    source = None
    try:
        source = iter(items)
        while True:
            room.acquire()
            if stopping.is_set():
                break
            try:
                item = next(source)
            except StopIteration:
                break
            ready.put(item)
        ready.put(_Finished())
    except BaseException as error:  # whatever it is, it belongs to the caller
        ready.put(_Failed(error))
    finally:
        if isinstance(source, Generator):
            source.close()  # here, where it ran: what it opened is closed before `close` returns
