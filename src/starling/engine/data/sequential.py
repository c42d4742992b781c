"""Rows of a file read from its beginning to its end, straight into memory, without leaving them in the page cache.

A part that trains for a while and makes room for the next is read again and again. Reading in order lets the disk run ahead, and
pages that are dropped behind leave the memory to what is computed on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import StarlingError
from starling.core.npy import read_header

_BLOCK_BYTES = 1 << 23


def read_rows(path: Path, out: NDArray[np.float32], *, drop: bool) -> None:
    """Fill `out` [N, F] with the rows of a ``.npy`` matrix of any type of number; `drop` leaves nothing of it in the page cache."""
    done = 0
    for block in row_blocks_of(path, out.shape[1], drop=drop):
        out[done : done + len(block)] = block
        done += len(block)
    if done != len(out):
        raise StarlingError(f"Expected {len(out):,} rows in {path}, got {done:,}. Create the directory again.")


def row_blocks_of(path: Path, width: int, *, drop: bool) -> Iterator[NDArray[Any]]:
    """The rows of a ``.npy`` matrix in blocks of 8 MiB, in the file's type; a block is good until the next is asked for."""
    with path.open("rb", buffering=0) as file:
        shape, _, dtype = read_header(file, path)
        size = max(1, _BLOCK_BYTES // max(1, width * dtype.itemsize))
        buffer = np.empty((min(size, shape[0]), math.prod(shape[1:])), dtype)
        for start in range(0, shape[0], size):
            block = buffer[: min(size, shape[0] - start)]
            _fill(file, block, path)
            if drop:
                drop_pages(file.fileno(), 0, file.tell())
            yield block


def drop_pages(file: int, start: int, stop: int) -> None:
    """Tell the system that these bytes of a file need not stay in memory."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, start, stop - start, os.POSIX_FADV_DONTNEED)


def _fill(file: BinaryIO, block: NDArray[Any], path: Path) -> None:
    room = block.reshape(-1).view(np.uint8).data
    while len(room):
        count = file.readinto(room)  # type: ignore[attr-defined]
        if not count:
            raise StarlingError(f"{path} ends too early. Create the directory again.")
        room = room[count:]
