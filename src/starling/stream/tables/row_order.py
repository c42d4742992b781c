"""Put the rows of a table that does not fit in memory into another order.

Rows go to buckets by where they belong, a range of final rows a bucket, and each range is put in order by itself: the table is
written twice and never jumped about in.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.npy import NpyReader, NpyWriter
from starling.kernels.buckets import Buckets
from starling.stream.room import Room


def rearrange_rows(source: Path, positions: Path, target: Path, room: Room, scratch: Path) -> None:
    """Write row i of `source` as row ``positions[i]`` of `target`; positions are a permutation. Deletes the source."""
    reader, position_reader = NpyReader(source), NpyReader(positions)
    width = int(np.prod(reader.shape[1:], dtype=np.int64)) * reader.dtype.itemsize
    # Rows travel as the widest words they are made of, whatever their type.
    word = np.dtype(next(name for name in ("u8", "u4", "u2", "u1") if width % np.dtype(name).itemsize == 0))
    count = room.buckets(reader.rows, 3 * width + 16)
    span = -(-reader.rows // count)
    rows = room.rows(3 * width + 32)
    with (
        Buckets(scratch / "rows", count, word, width // word.itemsize) as values,
        Buckets(scratch / "places", count, np.int64, 1) as places,
    ):
        for start in range(0, reader.rows, rows):
            stop = min(start + rows, reader.rows)
            position = position_reader.read(start, stop).astype(np.int64)
            bucket = (position // span).astype(np.uint8)
            values.append(bucket, reader.read(start, stop).reshape(stop - start, -1).view(word))
            places.append(bucket, position)
        source.unlink()
        values.finish()
        places.finish()
        with NpyWriter(target, reader.dtype, reader.shape[1:]) as writer:
            for number in range(count):
                place = places.read(number).reshape(-1) - number * span
                came = values.read(number)
                ordered = np.empty_like(came)
                ordered[place] = came
                writer.append(ordered.view(reader.dtype).reshape(len(ordered), *reader.shape[1:]))
                values.remove(number)


def rearrange_ragged(
    lengths: Path, parts: tuple[Path, ...], positions: Path, targets: tuple[Path, ...], room: Room, scratch: Path
) -> Path:
    """As `rearrange_rows` for rows of different lengths, whose elements stand in `parts` (say, columns and values).

    Returns a file with the lengths in the new order.
    """
    length_reader, position_reader = NpyReader(lengths), NpyReader(positions)
    readers = [NpyReader(part) for part in parts]
    mean = max((reader.rows for reader in readers), default=0) // max(length_reader.rows, 1) + 1
    row_bytes = 24 * mean + 32
    count, rows = room.buckets(length_reader.rows, row_bytes), room.rows(row_bytes)
    span = -(-length_reader.rows // count)
    new_lengths = lengths.with_suffix(".ordered.npy")
    with ExitStack() as open_files:
        places = open_files.enter_context(Buckets(scratch / "places", count, np.int64, 2))
        values = [
            open_files.enter_context(Buckets(scratch / f"part-{k}", count, reader.dtype, 1)) for k, reader in enumerate(readers)
        ]
        at = 0
        for start in range(0, length_reader.rows, rows):
            stop = min(start + rows, length_reader.rows)
            length = length_reader.read(start, stop).astype(np.int64)
            position = position_reader.read(start, stop).astype(np.int64)
            bucket = (position // span).astype(np.uint8)
            places.append(bucket, np.stack([position, length], axis=1))
            end = at + int(length.sum())
            for reader, out in zip(readers, values, strict=True):
                out.append(np.repeat(bucket, length), reader.read(at, end))
            at = end
        places.finish()
        length_writer = open_files.enter_context(NpyWriter(new_lengths, np.int64))
        writers = [
            open_files.enter_context(NpyWriter(target, reader.dtype)) for target, reader in zip(targets, readers, strict=True)
        ]
        for number in range(count):
            place, length = places.read(number).T
            order = np.argsort(place)
            length_writer.append(length[order])
            take = _element_order(length, order)
            for out, writer in zip(values, writers, strict=True):
                writer.append(out.finish().read(number).reshape(-1)[take])
                out.remove(number)
    for path in (lengths, *parts):
        path.unlink()
    return new_lengths


def _element_order(length: NDArray[Any], order: NDArray[Any]) -> NDArray[np.int64]:
    """Which elements to take, in turn, so that rows of these lengths stand in the given order."""
    begin = np.cumsum(length) - length
    taken = length[order]
    new_begin = np.cumsum(taken) - taken
    elements: NDArray[np.int64] = np.arange(int(length.sum())) + np.repeat(begin[order] - new_begin, taken)
    return elements
