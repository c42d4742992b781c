"""How long an operation takes, on a machine that may do other things too."""

from __future__ import annotations

import time
from collections.abc import Callable

_SECONDS = {False: 0.25, True: 0.06}
"""Time for one operation, thoroughly and in a hurry."""
_LEAST, _MOST = 3, 200


def typical_seconds(work: Callable[[], object], quick: bool = False) -> float:
    """The lower quartile of several calls after one to warm up: whatever else the machine does can only make one longer."""
    work()
    seconds: list[float] = []
    end = time.perf_counter() + _SECONDS[quick]
    while len(seconds) < _LEAST or (time.perf_counter() < end and len(seconds) < _MOST):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)[len(seconds) // 4]
