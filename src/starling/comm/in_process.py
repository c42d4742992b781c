"""A team whose workers are threads of one process: the transport of tests and of small experiments.

Workers must not talk inside a `functools.cached_property`: in Python 3.11 it holds one lock for all objects of a class.

results = run_threads(4, lambda team: work(team))
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.comm.ledger import Ledger
from starling.comm.mailbox import Mailbox
from starling.comm.team import Team
from starling.core.errors import StarlingError

Result = TypeVar("Result")

_LOOKS = 60
"""How often a worker looks for a message, a second each time, before it gives up; a second in which the process is stopped or
starved counts once, however long it lasts."""


class _Hall:
    """The pigeon-holes of all workers: one for each sender, receiver and tag."""

    def __init__(self) -> None:
        self._holes: defaultdict[tuple[int, int, int], deque[Any]] = defaultdict(deque)
        self._changed = threading.Condition()
        self._closed = False

    def put(self, sender: int, receiver: int, tag: int, item: Any) -> None:
        with self._changed:
            self._holes[sender, receiver, tag].append(item)
            self._changed.notify_all()

    def take(self, sender: int, receiver: int, tag: int) -> Any:
        key = (sender, receiver, tag)
        with self._changed:
            came = any(self._changed.wait_for(lambda: self._holes.get(key) or self._closed, 1.0) for _ in range(_LOOKS))
            if not came or self._closed:
                raise StarlingError(f"Worker {receiver} waited in vain for message {tag} of worker {sender}.")
            item = self._holes[key].popleft()
            if not self._holes[key]:
                del self._holes[key]
            return item

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def left(self) -> int:
        """Messages nobody took."""
        return sum(map(len, self._holes.values()))


class ThreadMailbox(Mailbox):
    """One thread's end."""

    def __init__(self, rank: int, size: int, hall: _Hall, ledger: Ledger) -> None:
        self.rank, self.size, self.ledger, self._hall = rank, size, ledger, hall

    def parcel(self, peer: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Ordinary memory."""
        return torch.empty(tuple(shape), dtype=dtype)

    def send(self, peer: int, tag: int, parcel: Tensor) -> None:
        """Hand the parcel over."""
        self._hall.put(self.rank, peer, tag, parcel)

    @contextmanager
    def receive(self, peer: int, tag: int, shape: Sequence[int], dtype: torch.dtype) -> Iterator[Tensor]:
        """Take the parcel itself."""
        with self.ledger.time("waiting"):
            rows = self._hall.take(peer, self.rank, tag)
        if rows.shape != tuple(shape) or rows.dtype != dtype:
            raise StarlingError(
                f"Expected {tuple(shape)} of {dtype} from worker {peer}, got {tuple(rows.shape)} of {rows.dtype}."
            )
        yield rows

    def send_list(self, peer: int, tag: int, values: NDArray[np.int64]) -> None:
        """Hand a copy over."""
        self._hall.put(self.rank, peer, tag, values.copy())

    def receive_list(self, peer: int, tag: int) -> NDArray[np.int64]:
        """Take the list."""
        with self.ledger.time("waiting"):
            values: NDArray[np.int64] = self._hall.take(peer, self.rank, tag)
        return values

    def close(self) -> None:
        """Nothing is held."""


def run_threads(size: int, work: Callable[[Team], Result]) -> list[Result]:
    """Run `work` once for each worker of a team of threads; results by rank, or the first error.

    A message that was sent and never received is an error too: over sockets it would have been a leak or a mix-up.
    """
    hall, results, errors = _Hall(), [None] * size, []

    def run(rank: int) -> None:
        ledger = Ledger(size)
        team = Team(rank, size, ThreadMailbox(rank, size, hall, ledger) if size > 1 else None, ledger)
        try:
            results[rank] = work(team)  # type: ignore[call-overload]
        except BaseException as error:
            errors.append(error)
            hall.close()

    threads = [threading.Thread(target=run, args=(rank,), name=f"worker-{rank}") for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    if hall.left:
        raise StarlingError(f"{hall.left} messages were sent and never received.")
    return results  # type: ignore[return-value]
