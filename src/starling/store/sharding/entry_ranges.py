"""Read chosen ranges of a long file in ascending order: near ones together, far ones skipped to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.npy import NpyReader

_GAP_BYTES = 1 << 16  # reading this much for nothing costs less than another seek
_BLOCK_BYTES = 1 << 23


def read_ranges(reader: NpyReader, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Iterator[NDArray[Any]]:
    """Rows starts[k] … stops[k] − 1 for every k, in blocks. Ranges ascend and do not overlap."""
    filled = stops > starts
    starts, stops = starts[filled], stops[filled]
    row_bytes = max(1, reader.dtype.itemsize * int(np.prod(reader.shape[1:], dtype=np.int64)))
    gap, block = max(1, _GAP_BYTES // row_bytes), max(1, _BLOCK_BYTES // row_bytes)
    breaks = np.flatnonzero(starts[1:] - stops[:-1] > gap) + 1
    for group in np.split(np.arange(len(starts)), breaks):
        if len(group):
            yield from _read_group(reader, starts[group], stops[group], block)


def _read_group(reader: NpyReader, starts: NDArray[np.int64], stops: NDArray[np.int64], block: int) -> Iterator[NDArray[Any]]:
    for low in range(int(starts[0]), int(stops[-1]), block):
        high = min(low + block, int(stops[-1]))
        inside = slice(np.searchsorted(stops, low, side="right"), np.searchsorted(starts, high))
        wanted = np.zeros(high - low + 1, np.int8)
        wanted[np.maximum(starts[inside], low) - low] += 1
        wanted[np.minimum(stops[inside], high) - low] -= 1
        yield reader.read(low, high)[np.cumsum(wanted[:-1], dtype=np.int8) > 0]
