"""Plans of fixed batches: the same every epoch, so made once, as many as fit."""

from __future__ import annotations

import threading
from collections.abc import Callable

from starling.plan.batch import BatchPlan

KEPT_BYTES = 1 << 28
_EDGE_BYTES, _ROW_BYTES = 24, 56
"""A plan's lists and all that training prepares from them: edges turned round, degrees, positions."""


def kept_bytes(edges: float, rows: float) -> float:
    """What a block holds while its plan is kept."""
    return _EDGE_BYTES * edges + _ROW_BYTES * rows


class KeptPlans:
    """At most `most` bytes of plans by batch number, first come first kept; a new grouping of the targets drops them all."""

    def __init__(self, most: int) -> None:
        self._most, self._held, self._grouping = most, 0.0, 0
        self._plans: dict[int, BatchPlan] = {}
        self._lock = threading.Lock()

    def plan(self, grouping: int, number: int, make: Callable[[], BatchPlan]) -> BatchPlan:
        """The kept plan of a batch, or a new one."""
        with self._lock:
            if grouping != self._grouping:
                self._plans, self._held, self._grouping = {}, 0.0, grouping
            if number in self._plans:
                return self._plans[number]
        made = make()
        size = sum(kept_bytes(len(block.neighbours), block.sources) for block in made.blocks)
        with self._lock:
            if grouping == self._grouping and number not in self._plans and self._held + size <= self._most:
                self._plans[number] = made
                self._held += size
        return made
