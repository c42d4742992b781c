"""Dropout whose mask is a function of (key, node, feature): the same for any order of rows and any number of workers.

One 64-bit draw decides four features, 16 bits each; the factor is exact for the probability as rounded to 16 bits, so that the
result is unbiased. Nothing is stored: the backward pass draws again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw
from starling.kernels.parallel import parallel_for

_U = np.uint64


def drop_features(
    x: NDArray[Any],
    position: NDArray[np.int64],
    key: np.uint64,
    probability: float,
    out: NDArray[Any],
    *,
    positive: bool = False,
    threads: int | None = None,
) -> None:
    """``out = x · mask / (1 − p)``, or of max(x, 0) with `positive`; row i is node position[i]. `out` may be `x` itself."""
    threshold, scale = drop_threshold(probability)
    kernel = _drop_sparse if _mostly_zero(x) else _drop
    parallel_for(
        len(x),
        lambda start, stop: kernel(x, position, key, threshold, x.dtype.type(scale), positive, out, start, stop),
        1 if x.size < 1 << 15 else threads,
    )


def drop_threshold(probability: float) -> tuple[int, float]:
    """The 16-bit threshold below which a value is dropped, and the factor that makes the rest unbiased for that threshold."""
    threshold = min(round(probability * 65536), 65536)
    return threshold, 65536 / (65536 - threshold) if threshold < 65536 else 0.0


def _mostly_zero(x: NDArray[Any]) -> bool:
    """Whether a few rows tell that nearly all values are zero, as in bags of words."""
    some = x[:: max(1, len(x) // 16)]
    return bool(8 * np.count_nonzero(some) < some.size)


@compiled
def _drop(
    x: NDArray[Any],
    position: NDArray[np.int64],
    key: np.uint64,
    threshold: int,
    scale: float,
    positive: bool,
    out: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    width = x.shape[1]
    for row in range(start, stop):
        for first in range(0, width, 4):
            bits = draw(key, position[row], first >> 2)
            for f in range(first, min(first + 4, width)):
                kept = np.int64(bits & _U(0xFFFF)) >= threshold
                bits >>= _U(16)
                value = x[row, f] * scale if kept else 0
                out[row, f] = max(value, 0) if positive else value


@compiled
def _drop_sparse(
    x: NDArray[Any],
    position: NDArray[np.int64],
    key: np.uint64,
    threshold: int,
    scale: float,
    positive: bool,
    out: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    """`_drop`, drawing only where there is something to drop."""
    for row in range(start, stop):
        for f in range(x.shape[1]):
            value = x[row, f]
            if value != 0:
                bits = draw(key, position[row], f >> 2) >> _U(16 * (f & 3))
                value = value * scale if np.int64(bits & _U(0xFFFF)) >= threshold else 0
            out[row, f] = max(value, 0) if positive else value
