"""Rows of a mapped file taken range by range, so that only one range's pages need to be resident at a time."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray


def row_ranges(index: NDArray[Any], size: int) -> Iterator[NDArray[np.int64]]:
    """Places in `index`, whose rows are wanted: those of rows 0 … size − 1, then of the next `size`, …, each in ascending order."""
    if len(index) == 0:
        return
    order = np.argsort(index, kind="stable")
    ascending = index[order]
    bounds = np.flatnonzero(np.diff(ascending // size)) + 1
    for start, stop in pairwise([0, *bounds.tolist(), len(index)]):
        yield order[start:stop]


def give_back(pages: mmap.mmap) -> None:
    """Tell the system that pages of a file are not needed: until then they count as this process's memory. No byte is lost."""
    if hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)
