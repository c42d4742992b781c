"""User ids set down on disk as they are read, before it is known what they will be numbered as."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from starling.core.npy import NpyReader, NpyWriter
from starling.kernels.edge_records import pack_pairs
from starling.kernels.ids import hash_integers
from starling.stream.ids.texts import Texts
from starling.stream.raw import IdKind, Ids
from starling.stream.room import Room

_INT32 = np.iinfo(np.int32)

IdBlock = NDArray[np.int64] | Texts


class IdSpool(ABC):
    """Ids in the order of the input: one a row, or two a row where rows are edges (source, then destination)."""

    rows: int = 0
    row_shape: tuple[int, ...]

    @property
    def ids(self) -> int:
        """How many ids there are."""
        return self.rows * int(np.prod(self.row_shape, dtype=np.int64))

    @abstractmethod
    def append(self, *ids: Ids) -> None:
        """Add rows: their ids, or their sources and destinations."""

    @abstractmethod
    def close(self) -> None:
        """End writing; needed before `blocks`."""

    @abstractmethod
    def blocks(self, room: Room) -> Iterator[IdBlock]:
        """All ids, source and destination of an edge after each other; a block holds whole rows."""

    @abstractmethod
    def remove(self) -> None:
        """Delete the files."""


class IntegerSpool(IdSpool):
    """Integer ids in a ``.npy`` file: int32 while all fit, rewritten as int64 once when one does not.

    `low` and `high` are the smallest and largest id (0 and −1 when there are none).
    """

    def __init__(self, path: Path, *, pairs: bool) -> None:
        self.path, self.row_shape = path, (2,) if pairs else ()
        self.low, self.high = 0, -1
        self._writer = NpyWriter(path, np.int32, self.row_shape)

    def append(self, *ids: Ids) -> None:
        """Add rows: their ids, or their sources and destinations."""
        count = len(ids[0])
        if not count:
            return
        block, low, high = self._packed(ids, self._writer.dtype)
        if self._writer.dtype == np.int32 and not _INT32.min <= low <= high <= _INT32.max:
            self._rewrite_as(np.int64)
            block, low, high = self._packed(ids, np.dtype(np.int64))
        self._writer.append(block)
        self.low = low if not self.rows else min(self.low, low)
        self.high = high if not self.rows else max(self.high, high)
        self.rows += count

    def close(self) -> None:
        """End writing; needed before `blocks`."""
        self._writer.close()

    def blocks(self, room: Room) -> Iterator[NDArray[np.int64]]:
        """All ids as int64, source and destination of an edge after each other."""
        for block in NpyReader(self.path).blocks(room.rows(64)):
            yield block.reshape(-1).astype(np.int64, copy=False)

    def remove(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)

    def store_as(self, dtype: DTypeLike) -> None:
        """Make the closed file one of this type, which all ids must fit."""
        if self._writer.dtype != dtype:
            self._rewrite_as(dtype)
            self._writer.close()

    def _packed(self, ids: tuple[Ids, ...], dtype: np.dtype[Any]) -> tuple[NDArray[Any], int, int]:
        block = np.empty((len(ids[0]), *self.row_shape), dtype)
        if len(ids) == 2:
            low, high = pack_pairs(ids[0], ids[1], block)
        else:
            low, high = int(ids[0].min()), int(ids[0].max())
            block[:] = ids[0]  # numbers that do not fit wrap around; the caller looks at low and high
        return block, low, high

    def _rewrite_as(self, dtype: DTypeLike) -> None:
        """Begin the file again with what it holds in another type."""
        self._writer.close()
        old = self.path.with_suffix(".old")
        self.path.rename(old)
        self._writer = NpyWriter(self.path, dtype, self.row_shape)
        for block in NpyReader(old).blocks(1 << 18):
            self._writer.append(block)
        old.unlink()


class TextSpool(IdSpool):
    """String ids in two ``.npy`` files: their lengths, and all their bytes."""

    def __init__(self, path: Path, *, pairs: bool) -> None:
        self.row_shape = (2,) if pairs else ()
        self._paths = path.with_suffix(".lengths.npy"), path.with_suffix(".bytes.npy")
        self._lengths, self._bytes = NpyWriter(self._paths[0], np.int32), NpyWriter(self._paths[1], np.uint8)

    def append(self, *ids: Ids) -> None:
        """Add rows: their ids, or their sources and destinations."""
        texts = Texts.from_arrow(ids[0] if len(ids) == 1 else _by_turns(*ids))
        self._lengths.append(texts.lengths)
        self._bytes.append(texts.data)
        self.rows += len(ids[0])

    def close(self) -> None:
        """End writing; needed before `blocks`."""
        self._lengths.close()
        self._bytes.close()

    def blocks(self, room: Room) -> Iterator[Texts]:
        """All ids, source and destination of an edge after each other."""
        lengths_file, bytes_file = (NpyReader(path) for path in self._paths)
        size = 2 * room.rows(128 + 8 * bytes_file.rows // max(self.rows, 1))
        start = 0
        for lengths in lengths_file.blocks(size):
            stop = start + int(lengths.sum(dtype=np.int64))
            yield Texts.from_lengths(lengths, bytes_file.read(start, stop))
            start = stop

    def remove(self) -> None:
        """Delete the files."""
        for path in self._paths:
            path.unlink(missing_ok=True)


def _by_turns(source: Any, destination: Any) -> pa.Array:
    """The first source, the first destination, the second source, and so on."""
    order = np.arange(2 * len(source)).reshape(2, -1).T.reshape(-1)
    both = [ids.cast(pa.large_string()) for ids in (source, destination)]  # small offsets could overflow when joined
    return pa.concat_arrays(both).take(pa.array(order))


def new_spool(kind: IdKind, path: Path, *, pairs: bool = False) -> IntegerSpool | TextSpool:
    """An empty spool for ids of this kind."""
    return IntegerSpool(path, pairs=pairs) if kind == "integer" else TextSpool(path, pairs=pairs)


def hashes_of(block: IdBlock) -> NDArray[np.uint64]:
    """The hash of each id of a block."""
    if isinstance(block, Texts):
        return block.hashes()
    hashes = np.empty(len(block), np.uint64)
    hash_integers(block, hashes)
    return hashes


def one_id(block: IdBlock, index: int) -> int | str:
    """An id as a person knows it, for messages."""
    if isinstance(block, Texts):
        return bytes(block.data[block.offsets[index] : block.offsets[index + 1]]).decode(errors="replace")
    return int(block[index])
