"""Rows of numbers for all nodes, as one layer gives them: in memory where they fit, else in a scratch file that leaves no trace."""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import StarlingError
from starling.core.memory import format_bytes
from starling.kernels.rows import gather_mapped_rows, gather_rows

_HELD_BYTES = 1 << 24


class RowTable:
    """float32 rows, written in ranges, read in any order. With `path` they are in that file, which other processes may share."""

    def __init__(self, count: int, width: int, *, memory: int, path: Path | None = None) -> None:
        self.count, self.width = count, width
        self._pages: mmap.mmap | None = None
        size = 4 * count * width
        if size == 0 or (path is None and size <= memory):
            self._rows = np.empty((count, width), np.float32)
            return
        if path is not None:
            number = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                self._pages = _mapped(number, size, path.parent)  # by everybody who opens it: nothing is lost by doing it again
            finally:
                os.close(number)
            self._rows = np.frombuffer(self._pages, np.float32).reshape(count, width)
            return
        with tempfile.TemporaryFile() as file:  # has no name, and is gone with its last mapping
            self._pages = _mapped(file.fileno(), size, Path(tempfile.gettempdir()))
        self._rows = np.frombuffer(self._pages, np.float32).reshape(count, width)

    @property
    def on_disk(self) -> bool:
        """Whether the rows are in a scratch file."""
        return self._pages is not None

    def write(self, start: int, rows: NDArray[np.float32]) -> None:
        """Set rows start … start + len(rows) − 1."""
        self._rows[start : start + len(rows)] = rows
        self._give_back()

    def scatter(self, index: NDArray[Any], rows: NDArray[np.float32]) -> None:
        """Set the rows of these nodes."""
        self._rows[index] = rows
        self._give_back()

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Rows start … stop − 1; a view where they are in memory."""
        if self._pages is None:
            return self._rows[start:stop]
        rows = self._rows[start:stop].copy()
        self._give_back()
        return rows

    def read_into(self, start: int, out: NDArray[np.float32]) -> None:
        """Fill `out` with the rows from `start` on; of a file, few pages are held at a time."""
        at_once = max(1, _HELD_BYTES // max(1, 4 * self.width))
        for first in range(0, len(out), at_once):
            some = out[first : first + at_once]
            some[...] = self._rows[start + first : start + first + len(some)]
            self._give_back()

    def rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        """The rows of these nodes, in fresh memory."""
        out = np.empty((len(index), self.width), np.float32)
        if self._pages is None:
            gather_rows(self._rows, np.ascontiguousarray(index), out)
        else:
            gather_mapped_rows(self._rows, self._pages, np.ascontiguousarray(index), out)
        return out

    def _give_back(self) -> None:
        """Mapped pages count as resident memory until the system is told that they are not needed."""
        if self._pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._pages.madvise(mmap.MADV_DONTNEED)


def _mapped(file: int, size: int, folder: Path) -> mmap.mmap:
    """A file of so many bytes in memory; a full disk is an error here, not a signal later."""
    try:
        os.posix_fallocate(file, 0, size)
    except OSError as error:
        raise StarlingError(
            f"No room for {format_bytes(size)} of nodes' rows in {folder} ({error.strerror}). Free some, or raise --memory."
        ) from error
    return mmap.mmap(file, size)
