"""The user's ids on disk: which id a position has, and which position an id.

Where ids are not positions themselves, the id of position i is row i of ``ids.npy`` (integers) or
``ids.bytes.npy[ids.offsets.npy[i] : ids.offsets.npy[i + 1]]`` (UTF-8). ``ids.hash.npy`` holds the hashes of all ids
(kernels/ids.py), sorted, and ``ids.order.npy`` the position behind each; equal hashes stand in order of position.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.manifest import GraphManifest
from starling.core.npy import NpyReader, NpyWriter, map_array
from starling.kernels.buckets import Buckets
from starling.kernels.ids import buckets_of, find_hashes, match_integers, match_texts
from starling.kernels.parallel import parallel_for
from starling.stream.ids.spool import IdBlock, hashes_of
from starling.stream.ids.texts import Texts
from starling.stream.raw import Ids
from starling.stream.room import Room

Kind = Literal["position", "integer", "string"]

IDS, OFFSETS, BYTES, HASH, ORDER = "ids.npy", "ids.offsets.npy", "ids.bytes.npy", "ids.hash.npy", "ids.order.npy"
UNKNOWN = -1


class IdIndex:
    """Looks ids up in a graph directory. Files are memory-mapped, so opening costs nothing."""

    def __init__(self, directory: Path, kind: Kind, nodes: int | None = None) -> None:
        self.kind: Kind = kind
        self.nodes = GraphManifest.read(directory).nodes if nodes is None else nodes
        self._directory = directory
        self._files: dict[str, NDArray[Any]] = {}

    def positions(self, ids: Ids) -> NDArray[np.int64]:
        """The position of each id, −1 for ids the graph does not have."""
        if isinstance(ids, pa.Array) != (self.kind == "string"):
            came = "names" if isinstance(ids, pa.Array) else "numbers"
            raise InputError(f"The ids of this graph are {'names' if self.kind == 'string' else 'numbers'}, got {came}.")
        if self.kind == "position":
            numbers = np.asarray(ids, np.int64)
            return np.where((numbers >= 0) & (numbers < self.nodes), numbers, UNKNOWN)
        block: IdBlock = Texts.from_arrow(ids) if self.kind == "string" else np.ascontiguousarray(ids, np.int64)
        found = np.empty(len(block), np.int64)
        hashes, known, order = hashes_of(block), self._file(HASH), self._file(ORDER)
        parallel_for(len(found), lambda start, stop: find_hashes(hashes, known, start, stop, found))
        if isinstance(block, Texts):
            match_texts(block.offsets, block.data, hashes, known, order, self._file(OFFSETS), self._file(BYTES), found)
        else:
            match_integers(block, known, order, self._file(IDS), found)
        return found

    def user_ids(self, start: int, stop: int) -> Ids:
        """The ids of positions start … stop − 1."""
        if self.kind == "position":
            return np.arange(start, stop)
        if self.kind == "integer":
            return np.array(self._file(IDS)[start:stop])
        offsets = np.array(self._file(OFFSETS)[start : stop + 1])
        return Texts(offsets - offsets[0], np.array(self._file(BYTES)[offsets[0] : offsets[-1]])).to_arrow()

    def _file(self, name: str) -> NDArray[Any]:
        if name not in self._files:
            self._files[name] = np.asarray(map_array(self._directory / name))
        return self._files[name]


class IdTableWriter:
    """Writes the ids of positions 0, 1, … as they come, and their index when all have come."""

    def __init__(self, directory: Path, kind: Literal["integer", "string"]) -> None:
        self._directory, self.rows = directory, 0
        if kind == "integer":
            self._writers = [NpyWriter(directory / IDS, np.int64)]
        else:
            self._writers = [NpyWriter(directory / OFFSETS, np.int64), NpyWriter(directory / BYTES, np.uint8)]
            self._writers[0].append(np.zeros(1, np.int64))

    def append(self, ids: IdBlock) -> None:
        """Add the ids of the next positions."""
        self.rows += len(ids)
        if isinstance(ids, Texts):
            offsets, data = self._writers
            offsets.append(ids.offsets[1:] + data.rows)
            data.append(ids.data)
        else:
            self._writers[0].append(ids)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for writer in self._writers:
            writer.__exit__(kind, error, trace)

    def index(self, room: Room, scratch: Path) -> None:
        """End the table and write its index: hashes and positions, sorted a range of hashes at a time."""
        for writer in self._writers:
            writer.close()
        count = room.buckets(self.rows, 64)
        dtype = np.int32 if self.rows <= np.iinfo(np.int32).max else np.int64
        with (
            Buckets(scratch / "index", count, np.uint64, 2) as ranges,
            NpyWriter(self._directory / HASH, np.uint64) as hash_file,
            NpyWriter(self._directory / ORDER, dtype) as order_file,
        ):
            at = 0
            for block in _stored_ids(self._directory, room):
                hashes, bucket = hashes_of(block), np.empty(len(block), np.uint8)
                buckets_of(hashes, count, bucket)
                ranges.append(bucket, np.stack([hashes, np.arange(at, at + len(block), dtype=np.uint64)], axis=1))
                at += len(block)
            ranges.finish()
            for number in range(count):
                records = ranges.read(number)
                records = records[np.argsort(records[:, 0], kind="stable")]
                hash_file.append(records[:, 0])
                order_file.append(records[:, 1])


def _stored_ids(directory: Path, room: Room) -> Iterator[IdBlock]:
    if (directory / IDS).exists():
        yield from NpyReader(directory / IDS).blocks(room.rows(128))
        return
    offsets_file, bytes_file = NpyReader(directory / OFFSETS), NpyReader(directory / BYTES)
    nodes = offsets_file.rows - 1
    rows = room.rows(128 + 8 * bytes_file.rows // max(nodes, 1))
    for start in range(0, nodes, rows):
        offsets = offsets_file.read(start, min(start + rows, nodes) + 1)
        yield Texts(offsets - offsets[0], bytes_file.read(int(offsets[0]), int(offsets[-1])))
