"""Messages that leave as soon as the blocks of rows that they are made of are done, one for each worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray


class Departures:
    """`made_of[w]` are the blocks [B] that the message for worker w is made of; `send(w)` sends it, once.

    With `at_once` a message leaves when its last block is done (one that is made of none, now), else when `send_rest` says so.
    """

    def __init__(self, made_of: Mapping[int, NDArray[np.bool_]], send: Callable[[int], None], *, at_once: bool = True) -> None:
        self._left = {worker: set(np.flatnonzero(blocks).tolist()) for worker, blocks in made_of.items()}
        self._waited_for = set[int]().union(*self._left.values())
        self._send, self._at_once = send, at_once
        self._send_what_is_done()

    def first(self, blocks: Iterable[int]) -> list[int]:
        """These blocks, those that messages are made of before all others."""
        return sorted(blocks, key=lambda block: block not in self._waited_for)

    def done(self, block: int) -> None:
        """A block is done."""
        if block in self._waited_for:
            for blocks in self._left.values():
                blocks.discard(block)
            self._send_what_is_done()

    def send_rest(self) -> None:
        """Send whatever has not left."""
        for worker in list(self._left):
            self._send_to(worker)

    def _send_what_is_done(self) -> None:
        for worker in [worker for worker, blocks in self._left.items() if self._at_once and not blocks]:
            self._send_to(worker)

    def _send_to(self, worker: int) -> None:
        del self._left[worker]
        self._send(worker)
