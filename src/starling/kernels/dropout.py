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
    parallel_for(
        len(x),
        lambda start, stop: _drop(x, position, key, threshold, x.dtype.type(scale), positive, out, start, stop),
        1 if x.size < 1 << 15 else threads,
    )


def drop_threshold(probability: float) -> tuple[int, float]:
    """The 16-bit threshold below which a value is dropped, and the factor that makes the rest unbiased for that threshold."""
    threshold = min(round(probability * 65536), 65536)
    return threshold, 65536 / (65536 - threshold) if threshold < 65536 else 0.0


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
    width, zero = x.shape[1], x.dtype.type(0)
    draws = np.empty((width + 3) // 4, np.uint64)
    bits = draws.view(np.uint16)  # a row's draws first, then its values: both loops work on whole vectors
    for row in range(start, stop):
        for k in range(len(draws)):
            draws[k] = draw(key, position[row], k)
        for f in range(width):
            value = x[row, f] * scale if bits[f] >= threshold else zero
            out[row, f] = max(value, zero) if positive else value
