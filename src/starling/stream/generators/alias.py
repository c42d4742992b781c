"""Drawing in proportion to weights in one step: Walker's alias tables.

A table has a slot for each of its n names. Every slot holds 1/n of all probability, shared by at most two names: its own, and
another heavy enough to have some to spare. A draw picks a slot, then one of the two, so it costs one look into memory
however many names there are and however uneven their weights. 12 bytes a name.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled

FULL = 2**32 - 1  # a share is counted in 2**-32ths


@compiled
def fill_alias(weights: NDArray[np.int64], names: NDArray[np.int32], table: NDArray[np.uint32]) -> None:
    """Write rows (share of the own name, own name, other name) for positive whole weights.

    One sweep with two hands (Hübschle-Schneider and Sanders 2019, section 4): the next light name's slot is topped up by
    the current heavy name; once that has no more than a slot left it closes its own, topped up by the next heavy one. In
    whole numbers (weights times n against their sum), so nothing is lost to rounding before the final share.
    """
    n = len(weights)
    average = np.int64(0)
    for i in range(n):
        average += weights[i]
        table[i, 0], table[i, 1], table[i, 2] = FULL, names[i], names[i]
    light, heavy = _next(weights, average, -1, False), _next(weights, average, -1, True)
    left = weights[heavy] * n if heavy < n else 0
    while heavy < n:
        if left > average and light < n:
            share = weights[light] * n
            _share(table, light, share / average, names[heavy])
            left -= average - share
            light = _next(weights, average, light, False)
        else:
            following = _next(weights, average, heavy, True)
            if following < n:
                _share(table, heavy, left / average, names[following])
                left += weights[following] * n - average
            heavy = following


@compiled
def _next(weights: NDArray[np.int64], average: np.int64, at: int, heavy: bool) -> int:
    """The next name after `at` that is above average weight, or is not."""
    at += 1
    while at < len(weights) and (weights[at] * len(weights) > average) != heavy:
        at += 1
    return at


@compiled
def _share(table: NDArray[np.uint32], slot: int, own: float, other: int) -> None:
    table[slot, 0], table[slot, 2] = np.uint32(min(own * FULL, float(FULL))), other


@compiled
def pick(table: NDArray[np.uint32], first: int, n: int, unit: float) -> int:
    """The name that `unit`, random in [0, 1), falls on in the table in rows first … first + n − 1."""
    place = unit * n
    slot = int(place)
    row = first + slot
    other = int((place - slot) * FULL >= table[row, 0])  # arithmetic, not a branch: no processor can guess this one
    return int(table[row, 1 + other])
