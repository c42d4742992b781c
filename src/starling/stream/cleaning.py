"""Self-loops, repeated edges and missing reverses: found and put right without holding the edges.

Every edge goes to a bucket together with its copies and its reverses (kernels/edge_records.py); there the copies are counted
and, if anything is to change, a verdict is found for each edge. Going through the edges once more, verdicts come back in
order, and edges and their tables are written as they will stay. When nothing changes, the files that came are the final ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.manifest import EdgeCounts
from starling.core.npy import NpyReader, NpyWriter
from starling.core.progress import Progress
from starling.kernels.answers import Answers
from starling.kernels.bitset import empty_bits, size
from starling.kernels.buckets import Buckets
from starling.kernels.edge_records import NARROW, WIDE, expand, make_records, survey
from starling.kernels.parallel import parallel_for
from starling.stream.ahead import read_ahead
from starling.stream.edge_counter import EdgeCounter, Rules
from starling.stream.room import Room

_WRAP = (1 << 64) - 1


@dataclass(frozen=True)
class EdgeFiles:
    """Edges [E, 2] and their tables by role, each a ``.npy`` file with a row an edge."""

    pairs: Path
    tables: dict[str, Path]


@dataclass(frozen=True)
class Findings:
    """What was found and done, and what the edges are in the end.

    `symmetric` says whether, types aside, every edge stands there as often as its reverse; `isolated` counts the nodes that
    no edge is left at.
    """

    counts: EdgeCounts
    edges: int
    symmetric: bool
    isolated: int


def clean_edges(
    came: EdgeFiles, final: EdgeFiles, nodes: int, rules: Rules, room: Room, scratch: Path, progress: Progress
) -> Findings:
    """Write the final edge files from those that came, which are moved or deleted.

    Repeats are edges of equal source, destination and type. Disk: 8 bytes an edge for buckets (24 with types or beyond
    2³¹ nodes) and one for verdicts. Memory: a bit a node, and the different edges of one bucket a thread.
    """
    edges = _Edges(came, room)
    with (
        Buckets(scratch / "edges", edges.buckets, np.uint64, edges.words) as records,
        Answers(scratch / "verdicts", edges.buckets, np.uint8) as verdicts,
        progress.task("checking edges", 2 * edges.count) as task,
    ):
        surveyed = _send_out(edges, records, nodes, rules, task.advance)
        if surveyed.balanced:  # symmetric already, types aside: reverses may have types of their own
            rules = replace(rules, add_reverses=False)
        if not surveyed.loops:
            rules = replace(rules, drop_loops=False)
        matched = _match(records.finish(), verdicts, rules, edges.chunk, task.advance)
        counts = EdgeCounts(
            read=edges.count,
            self_loops=surveyed.loops,
            duplicates=matched.repeats,
            self_loops_dropped=surveyed.loops if rules.drop_loops else 0,
            duplicates_dropped=matched.dropped,
            reverses_added=matched.added,
        )
        if counts.self_loops_dropped or counts.duplicates_dropped or counts.reverses_added:
            balanced = _rewrite(edges, final, verdicts, nodes, progress)
        else:
            balanced = surveyed.balanced
            _move(came, final)
    left = edges.count - counts.self_loops_dropped - counts.duplicates_dropped + counts.reverses_added
    return Findings(counts, left, balanced, surveyed.isolated)


class _Edges:
    """The edges that came, block by block with their records, prepared by a thread of their own."""

    def __init__(self, files: EdgeFiles, room: Room) -> None:
        self.files, self.pairs = files, NpyReader(files.pairs)
        self._types = NpyReader(files.tables["type"]) if "type" in files.tables else None
        self.count = self.pairs.rows
        self.words = NARROW if self.pairs.dtype == np.int32 and self._types is None else WIDE
        record_bytes = 40 + 24 * self.words  # a record, its two table rows with their counts, its slot
        self.buckets, self.chunk = room.buckets(self.count, record_bytes), room.rows(record_bytes)

    def records(self) -> Iterator[tuple[NDArray[Any], NDArray[np.uint8], NDArray[np.uint64]]]:
        """Blocks of pairs, with the bucket and the record of each."""
        for start in range(0, self.count, self.chunk):
            stop = min(start + self.chunk, self.count)
            pairs = self.pairs.read(start, stop)
            types = self._types.read(start, stop) if self._types else np.empty(0, np.uint8)
            bucket, records = np.empty(len(pairs), np.uint8), np.empty((len(pairs), self.words), np.uint64)
            make_records(pairs, types, self.buckets, bucket, records)
            yield pairs, bucket, records


@dataclass(frozen=True)
class _Surveyed:
    loops: int
    balanced: bool
    isolated: int


@dataclass(frozen=True)
class _Matched:
    repeats: int
    dropped: int
    added: int


def _send_out(edges: _Edges, out: Buckets, nodes: int, rules: Rules, advance: Callable[[int], None]) -> _Surveyed:
    """Send every edge to its bucket, and survey all on the way."""
    loops, balance, touched = 0, 0, empty_bits(nodes)

    def surveyed() -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint64]]]:
        nonlocal loops, balance
        for pairs, bucket, records in edges.records():
            more_loops, difference = survey(pairs, rules.drop_loops, touched)
            loops, balance = loops + more_loops, (balance + int(difference)) & _WRAP
            yield bucket, records

    for bucket, records in read_ahead(surveyed()):
        out.append(bucket, records)
        advance(len(bucket))
    return _Surveyed(loops, balance == 0, nodes - size(touched))


def _match(records: Buckets, verdicts: Answers, rules: Rules, chunk: int, advance: Callable[[int], None]) -> _Matched:
    """Count copies and find verdicts, bucket by bucket."""
    repeats, dropped, added = np.zeros((3, records.count), np.int64)

    def work(start: int, stop: int) -> None:
        for number in range(start, stop):
            counter = EdgeCounter(records.width, min(int(records.sizes[number]), chunk))
            for block in records.chunks(number, chunk):
                repeats[number] += counter.count(block)
            if rules.change_anything:
                for block in records.chunks(number, chunk):
                    verdict = counter.judge(block, rules)
                    verdicts.append(number, verdict.verdict)
                    dropped[number] += verdict.dropped
                    added[number] += verdict.added
            records.remove(number)
            advance(int(records.sizes[number]))

    parallel_for(records.count, work)
    return _Matched(int(repeats.sum()), int(dropped.sum()), int(added.sum()))


def _rewrite(edges: _Edges, final: EdgeFiles, verdicts: Answers, nodes: int, progress: Progress) -> bool:
    """Write what remains and what is added, tables along with their edges; returns whether that is symmetric."""
    came = {role: NpyReader(path) for role, path in edges.files.tables.items()}
    start, balance, touched = 0, 0, empty_bits(nodes)
    with ExitStack() as open_files, progress.task("writing edges", edges.count) as task:
        pairs_file = open_files.enter_context(NpyWriter(final.pairs, edges.pairs.dtype, (2,)))
        tables = {
            role: open_files.enter_context(NpyWriter(final.tables[role], reader.dtype, reader.shape[1:]))
            for role, reader in came.items()
        }
        for pairs, bucket, _ in read_ahead(edges.records()):
            out, origin = np.empty((2 * len(pairs), 2), pairs.dtype), np.empty(2 * len(pairs), np.int64)
            rows = expand(pairs, verdicts.gather(bucket), out, origin)
            balance = (balance + int(survey(out[:rows], False, touched)[1])) & _WRAP
            pairs_file.append(out[:rows])
            for role, writer in tables.items():
                writer.append(came[role].read(start, start + len(pairs))[origin[:rows]])
            start += len(pairs)
            task.advance(len(pairs))
    for path in (edges.files.pairs, *edges.files.tables.values()):
        path.unlink()
    return balance == 0


def _move(came: EdgeFiles, final: EdgeFiles) -> None:
    came.pairs.rename(final.pairs)
    for role, path in came.tables.items():
        path.rename(final.tables[role])
