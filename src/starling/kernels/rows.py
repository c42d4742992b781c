"""Rows of numbers as kernels see them, and moving rows: gather, scatter, move, add.

A matrix is a flat array with a row stride, so that a kernel can read the right half of a wider matrix (one product for two
weight matrices) without a copy. bfloat16 arrives as its 16 bits and is widened on the way in; sums are made in float32.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.parallel import parallel_for

_HELD_BYTES, _FAULT_BYTES = 1 << 24, 1 << 16


@dataclass(frozen=True, eq=False)
class Rows:
    """`count` rows of `width` numbers; row r starts at ``flat[r * stride]``."""

    flat: NDArray[Any]
    count: int
    width: int
    stride: int


def rows_of(matrix: NDArray[Any]) -> Rows:
    """A C-ordered matrix as rows."""
    count, width = matrix.shape
    return Rows(matrix.reshape(-1), count, width, width)


def gather_rows(source: NDArray[Any], index: NDArray[Any], out: NDArray[Any], threads: int | None = None) -> None:
    """``out[i] = source[index[i]]`` for 2-D C-ordered arrays of any one type."""
    parallel_for(len(index), lambda start, stop: _gather(source, index, out, start, stop), _few(out, threads))


def gather_mapped_rows(source: NDArray[Any], file: mmap.mmap, index: NDArray[Any], out: NDArray[Any]) -> None:
    """`gather_rows` out of a mapped file, whose pages are given back on the way: at most 16 MiB of them are held at once.

    Mapped pages count as resident memory, and the system maps up to 64 KiB around each row that is touched.
    """
    row_bytes = max(1, source.shape[1] * source.itemsize)
    few, together = max(1, _HELD_BYTES // max(_FAULT_BYTES, row_bytes)), max(1, _HELD_BYTES // row_bytes)
    order = np.argsort(index, kind="stable")
    ascending, start = index[order].astype(np.int64, copy=False), 0  # so that no page is touched again once it was given back
    while start < len(index):
        stop = max(start + few, int(np.searchsorted(ascending, int(ascending[start]) + together)))
        move_rows(source, ascending[start:stop], out, order[start:stop])
        if hasattr(mmap, "MADV_DONTNEED"):
            file.madvise(mmap.MADV_DONTNEED)
        start = stop


def scatter_rows(source: NDArray[Any], index: NDArray[Any], out: NDArray[Any], threads: int | None = None) -> None:
    """``out[index[i]] = source[i]``; no row may be named twice."""
    parallel_for(len(index), lambda start, stop: _scatter(source, index, out, start, stop), _few(source, threads))


def move_rows(
    source: NDArray[Any], index: NDArray[Any], out: NDArray[Any], places: NDArray[Any], threads: int | None = None
) -> None:
    """``out[places[i]] = source[index[i]]`` for 2-D C-ordered arrays of any one type; no place may be named twice."""
    few = 1 if len(index) * out.shape[1] < 1 << 16 else threads
    parallel_for(len(index), lambda start, stop: _move(source, index, out, places, start, stop), few)


def add_rows(source: NDArray[Any], index: NDArray[Any], out: NDArray[Any], threads: int | None = None) -> None:
    """``out[index[i]] += source[i]``; no row may be named twice."""
    parallel_for(len(index), lambda start, stop: _add(source, index, out, start, stop), _few(source, threads))


def _few(rows: NDArray[Any], threads: int | None) -> int | None:
    return 1 if rows.size < 1 << 16 else threads


@compiled
def _gather(source: NDArray[Any], index: NDArray[Any], out: NDArray[Any], start: int, stop: int) -> None:
    for i in range(start, stop):
        row = np.uint64(index[i])
        for f in range(source.shape[1]):
            out[i, f] = source[row, f]


@compiled
def _scatter(source: NDArray[Any], index: NDArray[Any], out: NDArray[Any], start: int, stop: int) -> None:
    for i in range(start, stop):
        row = np.uint64(index[i])
        for f in range(source.shape[1]):
            out[row, f] = source[i, f]


@compiled
def _move(source: NDArray[Any], index: NDArray[Any], out: NDArray[Any], places: NDArray[Any], start: int, stop: int) -> None:
    for i in range(start, stop):
        row, place = np.uint64(index[i]), np.uint64(places[i])
        for f in range(source.shape[1]):
            out[place, f] = source[row, f]


@compiled
def _add(source: NDArray[Any], index: NDArray[Any], out: NDArray[Any], start: int, stop: int) -> None:
    for i in range(start, stop):
        row = np.uint64(index[i])
        for f in range(source.shape[1]):
            out[row, f] += source[i, f]
