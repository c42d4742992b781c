"""When a step happens: what random choices are keyed by, beside node and feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from starling.core.keyed import stream_key


@dataclass(frozen=True)
class Moment:
    """A step of an epoch of a run with some seed."""

    seed: int = 0
    epoch: int = 0
    step: int = 0

    def key(self, stream: str) -> np.uint64:
        """The key of one stream of numbers at this step."""
        return stream_key(self.seed, stream, self.epoch, self.step)
