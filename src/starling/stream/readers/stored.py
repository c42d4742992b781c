"""An array in a ``.npy`` file or inside a ``.npz``, its header checked, its rows read in blocks.

The numbers lie in the file as `runs` runs, one after the other: row i is element i of each run. A C-ordered [N, F] is one
run of rows; a Fortran-ordered [N, F], or the transpose of a C-ordered [F, N], is F runs of single numbers. So an edge list
of either shape and either order is read the same way, a block of rows at a time.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.npy import read_header
from starling.stream.readers.files import sound

ReadInto = Callable[[int, memoryview], None]
"""Fill a buffer with the bytes that begin at a position."""

_HEADER_BYTES = 1 << 14  # NumPy itself refuses headers above 10,000 characters
_SKIP_BYTES = 1 << 20
_MOST_STREAMS = 16
_SMALL = 1 << 24
_PLAIN_KINDS = "biufUS"  # booleans, whole numbers, floats, text


class Content(ABC):
    """The bytes of one ``.npy``, wherever they lie."""

    name: str
    size: int

    @abstractmethod
    def open(self, runs: int) -> AbstractContextManager[ReadInto]:
        """A context in which bytes are read, `runs` places being followed at once; gives a `ReadInto`."""


class FileContent(Content):
    """A ``.npy`` file."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name, self.size = path, name, path.stat().st_size

    @contextmanager
    def open(self, runs: int) -> Iterator[ReadInto]:
        """Reads by seeking."""
        with self.path.open("rb", buffering=0) as file:
            yield _seeking(file, self.name)


class MemberContent(Content):
    """A member of a ``.npz``, stored or deflated.

    A zip member unpacks from its start only, so each run has a stream of its own, wound forward to where the run begins.
    Past a few runs that would unpack the member too often: then it is unpacked once, into an unnamed temporary file.
    """

    def __init__(self, archive: Path, member: zipfile.ZipInfo, name: str) -> None:
        self.archive, self.member, self.name, self.size = archive, member, name, member.file_size

    @contextmanager
    def open(self, runs: int) -> Iterator[ReadInto]:
        """Reads by unpacking."""
        with zipfile.ZipFile(self.archive) as archive, ExitStack() as opened:
            if runs <= _MOST_STREAMS:
                yield self._streaming(archive, opened)
                return
            with tempfile.TemporaryFile() as spool:
                with sound(self.name), archive.open(self.member) as stream:
                    shutil.copyfileobj(stream, spool, _SKIP_BYTES)
                yield _seeking(spool, self.name)

    def _streaming(self, archive: zipfile.ZipFile, opened: ExitStack) -> ReadInto:
        streams: dict[int, IO[bytes]] = {}

        def read_into(position: int, out: memoryview) -> None:
            with sound(self.name):
                stream = streams.pop(position, None)
                if stream is None:
                    stream = _wound_to(opened.enter_context(archive.open(self.member)), position)
                _fill(stream, out, self.name)
                if position + len(out) < self.size:
                    streams[position + len(out)] = stream
                else:
                    stream.read(1)  # meeting the end is what makes zipfile compare the checksum
                    stream.close()

        return read_into


def _wound_to(stream: IO[bytes], position: int) -> IO[bytes]:
    while position > 0 and (skipped := stream.read(min(position, _SKIP_BYTES))):
        position -= len(skipped)
    return stream


def _seeking(file: IO[bytes], name: str) -> ReadInto:
    def read_into(position: int, out: memoryview) -> None:
        with sound(name):
            file.seek(position)
            _fill(file, out, name)

    return read_into


def _fill(stream: Any, out: memoryview, name: str) -> None:
    filled = 0
    while filled < len(out):
        count = stream.readinto(out[filled:])
        if not count:
            raise InputError(f"{name} ends before its last row. Copy or create it again.")
        filled += count


class StoredArray:
    """An array on disk that is read by rows; `transposed()` makes its columns the rows."""

    def __init__(self, content: Content, *, transpose: bool = False) -> None:
        self.content, self.name = content, content.name
        self.shape, self._fortran, self.dtype, self._offset = _checked_header(content)
        if self._fortran and len(self.shape) > 2:
            raise InputError(f"Expected {self.name} in C order, got Fortran order. Save it with numpy.ascontiguousarray.")
        if transpose:
            self.shape, self._fortran = self.shape[::-1], not self._fortran
        by_column = self._fortran and len(self.shape) == 2
        self.rows = self.shape[0] if self.shape else 1
        self.row_shape = self.shape[1:]
        self._runs = self.shape[1] if by_column else 1
        self.row_bytes = int(np.prod(self.row_shape, dtype=np.int64)) * self.dtype.itemsize

    def transposed(self) -> StoredArray:
        """The same numbers, columns for rows."""
        return StoredArray(self.content, transpose=True)

    @contextmanager
    def open(self) -> Iterator[Callable[[int, int], NDArray[Any]]]:
        """A context with a function that reads rows start … stop − 1; quickest when asked for them in order."""
        with self.content.open(self._runs) as read_into:
            yield lambda start, stop: self._read(read_into, start, stop)

    def whole(self) -> NDArray[Any]:
        """All of a small array at once."""
        if self.rows * self.row_bytes > _SMALL:
            raise InputError(f"Expected {self.name} to be small, got {self.rows * self.row_bytes:,} bytes.")
        with self.open() as read:
            return read(0, self.rows).reshape(self.shape)

    def _read(self, read_into: ReadInto, start: int, stop: int) -> NDArray[Any]:
        count = stop - start
        if self._runs == 1:
            rows = np.empty((count, *self.row_shape), self.dtype)
            self._read_run(read_into, start * self.row_bytes, rows)
            return _native(rows)
        runs = np.empty((self._runs, count), self.dtype)
        for number, run in enumerate(runs):
            self._read_run(read_into, (number * self.rows + start) * self.dtype.itemsize, run)
        return _native(runs).T

    def _read_run(self, read_into: ReadInto, position: int, out: NDArray[Any]) -> None:
        if out.nbytes:
            read_into(self._offset + position, out.reshape(-1).view(np.uint8).data)


def _native(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _checked_header(content: Content) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order, type and place of the data; refuses objects, odd types and a size the header does not promise."""
    head = bytearray(min(content.size, _HEADER_BYTES))
    with content.open(1) as read_into:
        read_into(0, memoryview(head))
    file = io.BytesIO(head)
    with sound(content.name):
        shape, fortran, dtype = read_header(file, Path(content.name))
    if dtype.kind not in _PLAIN_KINDS:
        raise InputError(f"Expected plain numbers or text in {content.name}, got the type {dtype}.")
    promised = file.tell() + int(np.prod([int(length) for length in shape], dtype=object)) * dtype.itemsize
    if min(shape, default=0) < 0 or promised != content.size:
        raise InputError(
            f"{content.name} is truncated or damaged: its header promises {promised:,} bytes, it has {content.size:,}. "
            "Copy or create it again."
        )
    return shape, fortran, dtype, file.tell()
