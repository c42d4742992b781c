"""How many targets a batch of an evaluation may have where nobody knows beforehand what they lead to."""

from __future__ import annotations

_FIRST, _MOST = 64, 1024
_TIMES_INPUTS = 4
"""What a batch holds, in sizes of its inputs: these, the rows of a layer, those of the next, and edges."""


class BatchSize:
    """Targets of the next batch, going by the hungriest batch so far: about `memory` bytes, at least one target."""

    def __init__(self, memory: int) -> None:
        self._memory, self._per_target = memory, 0.0
        self.now = _FIRST

    def saw(self, targets: int, input_bytes: int) -> None:
        """A batch of so many targets read inputs of so many bytes."""
        if targets:
            self._per_target = max(self._per_target, input_bytes / targets)
            room = self._memory / (_TIMES_INPUTS * max(self._per_target, 1.0))
            self.now = max(1, min(_MOST, int(room), 4 * self.now))  # one target may lead to far more than those before it
