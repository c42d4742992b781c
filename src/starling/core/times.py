"""Moments in time, compared without rounding: nanoseconds since 1970 do not fit a float."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def no_later(times: NDArray[Any], before: float) -> NDArray[np.bool_]:
    """Which of these times are at most `before`."""
    found: NDArray[np.bool_] = times <= latest(before, times.dtype)
    return found


def latest(before: float, dtype: np.dtype[Any]) -> int | float:
    """The last moment of this type that is not after `before`."""
    if dtype.kind not in "iu":
        return before
    span = np.iinfo(dtype)
    if math.isinf(before) or not span.min <= before <= span.max:
        return int(span.max if before > 0 else span.min)  # nothing of this type lies beyond; the smallest stands for none
    return math.floor(before)
