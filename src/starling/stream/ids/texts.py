"""Blocks of text ids as compiled loops see them: offsets and UTF-8 bytes; and buckets of them on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from starling.core.npy import write_values
from starling.kernels.ids import arrange_texts, hash_texts


@dataclass(frozen=True)
class Texts:
    """Texts one after the other: text i is ``data[offsets[i]:offsets[i + 1]]``; `offsets` is int64 and starts at 0."""

    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]

    @classmethod
    def from_arrow(cls, array: pa.Array) -> Texts:
        """The texts of a pyarrow array of strings, which must have no nulls; bytes are not copied."""
        if not pa.types.is_large_string(array.type):
            array = array.cast(pa.large_string())
        if not len(array):
            return cls(np.zeros(1, np.int64), np.empty(0, np.uint8))
        _, offsets_buffer, data_buffer = array.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int64, len(array) + 1, offset=array.offset * 8)
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
        return cls(offsets - offsets[0], data[offsets[0] : offsets[-1]])

    @classmethod
    def from_lengths(cls, lengths: NDArray[Any], data: NDArray[np.uint8]) -> Texts:
        """Texts that stand one after the other with these lengths."""
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(offsets, data)

    def to_arrow(self) -> pa.Array:
        """The same as a pyarrow string array."""
        large = pa.LargeStringArray.from_buffers(len(self), pa.py_buffer(self.offsets), pa.py_buffer(self.data))
        return large.cast(pa.string())

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Bytes of each text."""
        return np.diff(self.offsets)

    def hashes(self) -> NDArray[np.uint64]:
        """The hash of each text (kernels/ids.py)."""
        hashes = np.empty(len(self), np.uint64)
        hash_texts(self.offsets, self.data, hashes)
        return hashes

    def select(self, mask: NDArray[np.bool_]) -> Texts:
        """The texts where `mask` is true."""
        lengths = self.lengths
        return Texts.from_lengths(lengths[mask], self.data[np.repeat(mask, lengths)])


class TextBuckets:
    """Texts spread over `count` buckets on disk, in order of arrival inside each."""

    def __init__(self, directory: Path, count: int) -> None:
        self.count, self.sizes = count, np.zeros(count, np.int64)
        directory.mkdir(parents=True, exist_ok=True)
        self._lengths = [directory / f"lengths-{number:05d}" for number in range(count)]
        self._bytes = [directory / f"bytes-{number:05d}" for number in range(count)]
        self._files = [
            (lengths.open("wb"), texts.open("wb")) for lengths, texts in zip(self._lengths, self._bytes, strict=True)
        ]

    def append(self, bucket: NDArray[np.uint8], texts: Texts) -> None:
        """Add each text to the end of its bucket."""
        bounds, byte_bounds = (
            np.concatenate([[0], np.cumsum(np.bincount(bucket, weights, self.count).astype(np.int64))])
            for weights in (None, texts.lengths)
        )
        lengths, arranged = np.empty(len(texts), np.int32), np.empty(len(texts.data), np.uint8)
        arrange_texts(bucket, texts.offsets, texts.data, bounds[:-1].copy(), byte_bounds[:-1].copy(), lengths, arranged)
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            lengths_file, bytes_file = self._files[number]
            write_values(lengths_file, lengths[bounds[number] : bounds[number + 1]])
            write_values(bytes_file, arranged[byte_bounds[number] : byte_bounds[number + 1]])
        self.sizes += np.diff(bounds)

    def finish(self) -> Self:
        """Close the files for writing; needed before `chunks`."""
        with ExitStack() as closing:  # every one, even where one has no space for its last bytes
            for pair in self._files:
                for file in pair:
                    closing.callback(file.close)
        return self

    def chunks(self, number: int, rows: int) -> Iterator[Texts]:
        """The texts of one bucket in order of arrival, at most `rows` at a time."""
        with self._lengths[number].open("rb") as lengths_file, self._bytes[number].open("rb") as bytes_file:
            while len(lengths := np.fromfile(lengths_file, np.int32, rows)):
                yield Texts.from_lengths(lengths, np.fromfile(bytes_file, np.uint8, int(lengths.sum(dtype=np.int64))))

    def remove(self, number: int) -> None:
        """Delete one bucket's files."""
        self._lengths[number].unlink(missing_ok=True)
        self._bytes[number].unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.finish()
        finally:
            for number in range(self.count):
                self.remove(number)
