"""Plain ``.npy`` files, read and written in row blocks.

Reading goes through ``read``, not a memory map: mapped pages count as resident memory, and a budget is a budget.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from starling.core.errors import InputError

_HEADER_BYTES = 128  # room for any shape we write; NumPy pads headers with spaces anyway


_PARSING = threading.Lock()
"""A header is Python text, and CPython 3.11's parser fails now and then when two threads are in it."""


class NpyWriter:
    """Appends row blocks to a new ``.npy`` file whose number of rows is known only at the end."""

    def __init__(self, path: Path, dtype: DTypeLike, row_shape: tuple[int, ...] = ()) -> None:
        self.path, self.dtype, self.row_shape, self.rows = Path(path), np.dtype(dtype), row_shape, 0
        self._file: BinaryIO = self.path.open("wb")
        self._write_header()

    def append(self, block: NDArray[Any]) -> None:
        """Write the rows of `block`, converted to the file's type."""
        if block.shape[1:] != self.row_shape:
            raise ValueError(f"rows of shape {block.shape[1:]} appended to {self.path} of shape {self.row_shape}")
        write_values(self._file, np.ascontiguousarray(block, self.dtype))
        self.rows += len(block)

    def close(self) -> None:
        """Write the final shape and close the file."""
        if not self._file.closed:
            with self._file:
                self._file.seek(0)
                self._write_header()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._file.close()

    def _write_header(self) -> None:
        shape = (self.rows, *self.row_shape)
        text = f"{{'descr': {np.lib.format.dtype_to_descr(self.dtype)!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
        room = _HEADER_BYTES - 10 - 1
        if len(text) > room:
            raise ValueError(f"a shape too long for the header of {self.path}: {shape}")
        self._file.write(b"\x93NUMPY\x01\x00" + (room + 1).to_bytes(2, "little") + text.ljust(room).encode() + b"\n")


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array of one or more dimensions to a new ``.npy`` file, as ``numpy.save`` does, but see `write_values`."""
    with NpyWriter(path, array.dtype, array.shape[1:]) as file:
        file.append(array)


def write_values(file: BinaryIO, array: NDArray[Any]) -> None:
    """Append the bytes of a C-ordered array to a file.

    Unlike ``ndarray.tofile`` and ``numpy.save``, which lose up to 4 KiB without a word when the disk is full and give no
    errno for the rest, this raises the operating system's own error.
    """
    file.write(array.reshape(-1).view(np.uint8).data)


class NpyReader:
    """Reads row blocks of a ``.npy`` file, any order of calls, holding only the block asked for."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        with self.path.open("rb") as file:
            self.shape, self.fortran, self.dtype = read_header(file, self.path)
            self._offset = file.tell()
        expected = self._offset + math.prod(self.shape) * self.dtype.itemsize
        if self.path.stat().st_size < expected:
            raise InputError(
                f"{self.path} is truncated: its header promises {expected:,} bytes, it has {self.path.stat().st_size:,}. "
                "Copy or create it again."
            )

    @property
    def rows(self) -> int:
        """How many rows the file has."""
        if not self.shape:
            raise InputError(f"Expected rows of values in {self.path}, got a single value.")
        return self.shape[0]

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start … stop − 1 of a C-ordered file."""
        width = math.prod(self.shape[1:])
        if self.fortran and width > 1:
            raise InputError(f"{self.path} is stored column by column. Save it again with numpy.ascontiguousarray.")
        with self.path.open("rb") as file:
            file.seek(self._offset + start * width * self.dtype.itemsize)
            flat = np.fromfile(file, self.dtype, (stop - start) * width)
        return flat.reshape(stop - start, *self.shape[1:])

    def blocks(self, size: int) -> Iterator[NDArray[Any]]:
        """All rows, `size` at a time."""
        for start in range(0, self.rows, size):
            yield self.read(start, min(start + size, self.rows))


def read_header(file: BinaryIO, path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of the ``.npy`` data that follows in `file`; refuses pickled objects."""
    try:
        version = np.lib.format.read_magic(file)
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        with _PARSING:
            shape, fortran, dtype = reader(file)
        if any(length < 0 for length in shape) or dtype.itemsize == 0:
            raise ValueError(f"a shape of {shape} and a type of {dtype}")
    except (ValueError, TypeError, SyntaxError, TokenError, RecursionError) as error:  # a header is Python text
        raise InputError(f"{path} is not a readable .npy file ({error}). Create it with numpy.save.") from error
    if dtype.hasobject:
        raise InputError(f"{path} holds pickled Python objects, which Starling never loads. Save plain numbers or strings.")
    return shape, fortran, dtype


def map_array(path: Path) -> NDArray[Any]:
    """The array in a ``.npy`` file, memory-mapped read-only (or read, when it is empty and cannot be mapped)."""
    reader = NpyReader(path)
    if 0 in reader.shape:
        return np.zeros(reader.shape, reader.dtype)
    with _PARSING:
        mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped
