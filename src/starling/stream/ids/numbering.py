"""User ids to node positions, in the order of first appearance, without holding the ids.

1. Every occurrence of an id goes to the bucket of its hash.
2. In each bucket the different ids are counted as they first appear: a *local* number for every occurrence, and whether it
   is the first of its id.
3. Going through the input once more, first occurrences are numbered on; the ids they bring are the id table, and the
   numbers go back to the buckets.
4. In each bucket local numbers become node positions.
5. Positions are gathered in the order of the input.

Memory is that of one bucket a thread; disk, about 20 bytes an occurrence (and the bytes of string ids once more).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from starling.core.npy import NpyReader, NpyWriter
from starling.core.progress import Progress
from starling.kernels.answers import Answers
from starling.kernels.buckets import Buckets
from starling.kernels.ids import buckets_of
from starling.kernels.parallel import parallel_for
from starling.stream.ahead import read_ahead
from starling.stream.id_index import IdTableWriter
from starling.stream.ids.books import IntegerBook, IsNew, Numbers, TextBook
from starling.stream.ids.complaints import Complaint
from starling.stream.ids.spool import IdBlock, IdSpool, TextSpool, hashes_of, one_id
from starling.stream.ids.texts import TextBuckets, Texts
from starling.stream.room import Room

_RECORD_BYTES = 64  # an id, its place in the table and the next of both
_CHUNK = 1 << 16  # tables make room for a chunk of nothing but new ids, so a small chunk keeps them small


@dataclass(frozen=True)
class Occurrences:
    """Ids of one input, in order, and which of them may be new: all must be, some may be, or none may.

    `complaint` makes the error for an id that breaks this. The positions found are written to `positions`.
    """

    spool: IdSpool
    positions: Path
    new: Literal["all", "some", "none"]
    complaint: Complaint | None = None


def number_ids(inputs: Sequence[Occurrences], table: IdTableWriter, room: Room, scratch: Path, progress: Progress) -> int:
    """Number the ids of all inputs together, write the id table, and the positions of each input to its own file.

    Returns the number of nodes. Position files have the rows of their spools, int32 when that fits, else int64.
    """
    scratch.mkdir()
    total = sum(part.spool.ids for part in inputs)
    count = room.buckets(total, _RECORD_BYTES)
    bucket_path = scratch / "bucket.npy"
    with progress.task("numbering ids", 3 * total, "ids") as task, ExitStack() as open_files:
        local = open_files.enter_context(Answers(scratch / "locals", count, np.uint32))
        numbers = open_files.enter_context(Buckets(scratch / "numbers", count, np.int64, 1))
        with Answers(scratch / "firsts", count, np.bool_) as first:
            with _new_buckets(inputs, scratch / "ids", count) as ids:
                _send_out(inputs, ids, bucket_path, room, task.advance)
                _count_different(ids.finish(), local, first, room)
            nodes = _number_first_ones(inputs, NpyReader(bucket_path), first, numbers, table, room, task.advance)
        position = open_files.enter_context(Answers(scratch / "positions", count, position_type(nodes)))
        _translate(local, numbers.finish(), position, room)
        _gather(inputs, NpyReader(bucket_path), position, room, task.advance)
    bucket_path.unlink()
    return nodes


def position_type(nodes: int) -> type[np.int32 | np.int64]:
    """The type node positions are stored as."""
    return np.int32 if nodes <= np.iinfo(np.int32).max else np.int64


def _new_buckets(inputs: Sequence[Occurrences], directory: Path, count: int) -> Buckets | TextBuckets:
    """Buckets for ids of this kind: strings whole, integers as their hashes, which tell them apart."""
    texts = any(isinstance(part.spool, TextSpool) for part in inputs)
    return TextBuckets(directory, count) if texts else Buckets(directory, count, np.uint64, 1)


def _send_out(
    inputs: Sequence[Occurrences], ids: Buckets | TextBuckets, bucket_path: Path, room: Room, advance: Callable[[int], None]
) -> None:
    """Step 1: every id to its bucket, and a file that says which bucket that was."""
    with NpyWriter(bucket_path, np.uint8) as bucket_file:
        for block in read_ahead(block for part in inputs for block in part.spool.blocks(room)):
            hashes = hashes_of(block)
            bucket = np.empty(len(block), np.uint8)
            buckets_of(hashes, ids.count, bucket)
            bucket_file.append(bucket)
            if isinstance(ids, Buckets):
                ids.append(bucket, hashes)
            elif isinstance(block, Texts):
                ids.append(bucket, block)
            advance(len(block))


def _count_different(ids: Buckets | TextBuckets, local: Answers, first: Answers, room: Room) -> None:
    """Step 2: number the different ids of each bucket by themselves."""
    rows = min(room.rows(_RECORD_BYTES), _CHUNK)

    def work(start: int, stop: int) -> None:
        for number in range(start, stop):
            for numbers, new in _numbered(ids, number, rows):
                local.append(number, numbers)
                first.append(number, new)
            ids.remove(number)

    parallel_for(ids.count, work)


def _numbered(ids: Buckets | TextBuckets, number: int, rows: int) -> Iterator[tuple[Numbers, IsNew]]:
    if isinstance(ids, TextBuckets):
        text_book = TextBook()
        yield from (text_book.number(texts) for texts in ids.chunks(number, rows))
    else:
        book = IntegerBook()
        yield from (book.number(hashes.reshape(-1)) for hashes in ids.chunks(number, rows))


def _number_first_ones(
    inputs: Sequence[Occurrences],
    bucket_file: NpyReader,
    first: Answers,
    numbers: Buckets,
    table: IdTableWriter,
    room: Room,
    advance: Callable[[int], None],
) -> int:
    """Step 3: positions for the first occurrences in the order of the input; their ids are the id table."""
    nodes, at = 0, 0
    for part in inputs:
        begin = at
        for block in read_ahead(part.spool.blocks(room)):
            bucket = bucket_file.read(at, at + len(block))
            new = first.gather(bucket)
            _check(part, block, new, at - begin)
            count = int(np.count_nonzero(new))
            if count:
                numbers.append(bucket[new], np.arange(nodes, nodes + count))
                table.append(block.select(new) if isinstance(block, Texts) else block[new])
            nodes, at = nodes + count, at + len(block)
            advance(len(block))
    return nodes


def _check(part: Occurrences, block: IdBlock, new: NDArray[np.bool_], begin: int) -> None:
    if part.complaint is None:
        return
    wrong = np.flatnonzero(new if part.new == "none" else ~new)
    if len(wrong):
        raise part.complaint(begin + int(wrong[0]), one_id(block, int(wrong[0])))


def _translate(local: Answers, numbers: Buckets, position: Answers, room: Room) -> None:
    """Step 4: the position of every occurrence, bucket by bucket."""
    rows = room.rows(_RECORD_BYTES)

    def work(start: int, stop: int) -> None:
        for number in range(start, stop):
            position_of: NDArray[Any] = numbers.read(number).reshape(-1)
            at = 0
            while len(chunk := local.read(number, at, rows)):
                position.append(number, position_of[chunk])
                at += len(chunk)
            local.remove(number)
            numbers.remove(number)

    parallel_for(numbers.count, work)


def _gather(
    inputs: Sequence[Occurrences], bucket_file: NpyReader, position: Answers, room: Room, advance: Callable[[int], None]
) -> None:
    """Step 5: the positions of each input's ids, in its order."""
    at = 0
    for part in inputs:
        width = max(part.spool.row_shape, default=1)
        rows = room.rows(32 * width)
        with NpyWriter(part.positions, position.dtype, part.spool.row_shape) as writer:
            for start in range(0, part.spool.rows, rows):
                ids = width * (min(start + rows, part.spool.rows) - start)
                writer.append(position.gather(bucket_file.read(at, at + ids)).reshape(-1, *part.spool.row_shape))
                at += ids
                advance(ids)
