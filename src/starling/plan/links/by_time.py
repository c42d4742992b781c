"""Cuts by time: the oldest edges train, the newest test, and edges of one time stay together.

Where to cut depends on how many edges are older, over all of them. Nobody sorts them for it: times are read as whole numbers of 64
bits in the same order, and their digits are counted, the highest 16 bits first, then the next 16 of those that agree so far. So it
takes four passes over the times, wherever they lie, and two counts of 65,536 a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.plan.links.splits import Total

Times = Callable[[], Iterable[NDArray[Any]]]
"""One pass over the times of this worker's edges, in pieces."""

_DIGIT = 16
_SIGN = np.uint64(1 << 63)


def cuts_by_time(times: Times, ends: Sequence[float], total: Total) -> NDArray[np.uint64]:
    """The last time, as `ordered_times` has it, of each share of the edges; `ends` are where shares end in [0, 1]."""
    count = int(total(np.array([sum(len(piece) for piece in times())]))[0])
    ranks = [round(count * end) for end in ends]
    return np.array(_values_at(times, ranks, total), np.uint64)


def time_split(time: NDArray[Any], cuts: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """How many cuts each edge lies behind."""
    return np.searchsorted(cuts, ordered_times(time), side="left").astype(np.uint8)


def ordered_times(time: NDArray[Any]) -> NDArray[np.uint64]:
    """Whole numbers from 0 on in the order of the times."""
    if time.dtype.kind in "iub":
        return time.astype(np.int64).view(np.uint64) ^ _SIGN
    if time.dtype.kind != "f" or np.isnan(time).any():
        raise InputError(f"Expected a number for the time of every edge, got {time.dtype} or 'not a number' among them.")
    bits = (time.astype(np.float64) + 0.0).view(np.uint64)  # of −0 and 0 one
    return np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)


def _values_at(times: Times, ranks: Sequence[int], total: Total) -> list[int]:
    """For each rank the smallest value that at least so many values of all workers do not exceed; 0 for rank 0."""
    found, left = [0] * len(ranks), list(ranks)
    for shift in range(64 - _DIGIT, -1, -_DIGIT):
        counts = np.zeros((len(ranks), 1 << _DIGIT), np.int64)
        for piece in times():
            _count_digits(ordered_times(piece), found, shift, counts)
        summed = np.cumsum(total(counts.reshape(-1)).reshape(counts.shape), axis=1)
        for i, rank in enumerate(left):
            digit = int(np.searchsorted(summed[i], rank)) if rank else 0
            left[i] = rank - int(summed[i, digit - 1]) if digit else rank
            found[i] |= digit << shift
    return found


def _count_digits(values: NDArray[np.uint64], found: Sequence[int], shift: int, counts: NDArray[np.int64]) -> None:
    """Add how many values that begin with the digits of each of `found` have each digit next."""
    digits, mask = values >> np.uint64(shift), np.uint64((1 << _DIGIT) - 1)
    for i, prefix in enumerate(found):
        same = digits >> np.uint64(_DIGIT) == np.uint64(prefix >> (shift + _DIGIT))
        counts[i] += np.bincount((digits[same] & mask).astype(np.int64), minlength=1 << _DIGIT)
