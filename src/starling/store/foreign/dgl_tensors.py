"""DGL's files of named tensors (``dgl.data.utils.save_tensors``), read and written without DGL.

All little-endian: a magic number, the count of tensors twice, then for each its name (length, bytes) and the tensor: another
magic number, eight zero bytes, device type and number (int32), dimensions (int32), type (code and bits uint8, lanes uint16),
shape (int64 each), size in bytes (int64), data. Checked against files of DGL 1.1.3.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.npy import write_values

_FILE_MAGIC, _TENSOR_MAGIC = 0xDD5A9FBE3FA2443F, 0xDD5E40F096B4A13F
_KINDS = {0: "i", 1: "u", 2: "f"}
_CODES = {kind: code for code, kind in _KINDS.items()}
_CPU = 1
_LONGEST_NAME, _MOST_DIMENSIONS = 1 << 16, 32


def read_dgl_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a file by name."""
    with Path(path).open("rb") as file:
        reader = _Reader(file, Path(path))
        magic, count, again = reader.numbers("<3Q")
        if magic != _FILE_MAGIC or count != again:
            raise InputError(f"{path} is not a file of tensors written by DGL.")
        return dict(reader.tensor() for _ in range(count))


def write_dgl_tensors(path: Path, tensors: dict[str, NDArray[Any]]) -> None:
    """Write tensors so that ``dgl.data.utils.load_tensors`` reads them."""
    with Path(path).open("wb") as file:
        file.write(struct.pack("<3Q", _FILE_MAGIC, len(tensors), len(tensors)))
        for name, values in tensors.items():
            text = name.encode()
            file.write(struct.pack("<Q", len(text)) + text + struct.pack("<2Q", _TENSOR_MAGIC, 0))
            kind = struct.pack("<BBH", _CODES[values.dtype.kind], values.dtype.itemsize * 8, 1)
            file.write(struct.pack("<3i", _CPU, 0, values.ndim) + kind)
            file.write(struct.pack(f"<{values.ndim}q", *values.shape) + struct.pack("<q", values.nbytes))
            write_values(file, values)


class _Reader:
    """Reads pieces of one file and says so when it ends too early."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path

    def numbers(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self._bytes(struct.calcsize(layout)))

    def tensor(self) -> tuple[str, NDArray[Any]]:
        (length,) = self.numbers("<Q")
        name = self._bytes(min(length, _LONGEST_NAME)).decode(errors="replace")
        magic, _, _, _, dimensions, code, bits, lanes = self.numbers("<2Q3iBBH")
        if magic != _TENSOR_MAGIC or code not in _KINDS or bits % 8 or lanes != 1 or not 0 <= dimensions <= _MOST_DIMENSIONS:
            raise InputError(f"{self._path} holds a tensor '{name}' that cannot be read. Write it again with DGL.")
        shape = self.numbers(f"<{dimensions}q")
        (size,) = self.numbers("<q")
        dtype = np.dtype(f"<{_KINDS[code]}{bits // 8}")
        count = int(np.prod(shape, dtype=np.int64))
        if min(shape, default=0) < 0 or size != count * dtype.itemsize:
            raise InputError(f"{self._path} is damaged at tensor '{name}'. Write it again with DGL.")
        return name, np.frombuffer(self._bytes(size), dtype).reshape(shape)

    def _bytes(self, count: int) -> bytes:
        found = self._file.read(count)
        if len(found) != count:
            raise InputError(f"{self._path} ends too early: it is truncated or not a file of tensors written by DGL.")
        return found
