"""Plans of fixed batches: the same every epoch, so made once, as many as fit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

KEPT_BYTES = 1 << 28
_EDGE_BYTES, _ROW_BYTES = 24, 56
"""A plan's lists and all that training prepares from them: edges turned round, degrees, positions."""

Plan = TypeVar("Plan")


def kept_bytes(edges: float, rows: float) -> float:
    """What a layer holds while its plan is kept."""
    return _EDGE_BYTES * edges + _ROW_BYTES * rows


class KeptPlans(Generic[Plan]):
    """At most `most` bytes of plans by batch number, first come first kept; a new grouping of the targets drops them all.

    `size` says what a plan holds. Workers that plan together must all keep the same ones, so it must tell them all the same.
    """

    def __init__(self, most: int, size: Callable[[Plan], float]) -> None:
        self._most, self._size, self._held, self._grouping = most, size, 0.0, 0
        self._plans: dict[int, Plan] = {}
        self._lock = threading.Lock()

    def plan(self, grouping: int, number: int, make: Callable[[], Plan]) -> Plan:
        """The kept plan of a batch, or a new one."""
        with self._lock:
            if grouping != self._grouping:
                self._plans, self._held, self._grouping = {}, 0.0, grouping
            if number in self._plans:
                return self._plans[number]
        made = make()
        size = self._size(made)
        with self._lock:
            if grouping == self._grouping and number not in self._plans and self._held + size <= self._most:
                self._plans[number] = made
                self._held += size
        return made
