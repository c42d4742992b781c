"""The same CSR for edges that do not fit in memory, as ``offsets.npy``, ``neighbours.npy`` and ``edge.npy``.

Edges are spread over files by ranges of rows, and one range at a time is read, sorted and written. A range that is still too
large is spread over smaller ones; a single row never is, for its edges already stand in order and only pass through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from starling.core.npy import NpyWriter, map_array
from starling.kernels.buckets import Buckets
from starling.kernels.csr import Csr, index_type, sort_records
from starling.kernels.degrees import COLUMN, Side, check_nodes
from starling.kernels.split import MOST_BUCKET_BITS, bucket_bits

CSR_FILES = ("offsets", "neighbours", "edge")
Records: TypeAlias = "NDArray[Any]"
"""Rows (row, neighbour, edge)."""

_BYTES_WHILE_SPREADING = 96  # a record of 24, its sorted copy, its bucket, and room
_BYTES_WHILE_SORTING = 48  # a record of 24, its sorted neighbour and edge, and room; for a row, its counter and offset


def csr_out_of_core(
    blocks: Iterable[NDArray[Any]], nodes: int, edges: int, directory: Path, memory: int, *, by: Side = "destination"
) -> None:
    """Write the CSR of a stream of edges, blocks of pairs [·, 2], into an existing directory.

    The bytes are those of ``csr_from_pairs`` on all `edges` at once. Keeps to about `memory` bytes beyond the blocks; needs
    12 bytes of disk an edge while it works (24 with int64 numbers). Everything is written once and read once more, unless
    one of the 512 ranges of rows exceeds the memory.
    """
    with TemporaryDirectory(prefix=".csr-", dir=directory) as scratch, CsrWriter(directory, nodes, edges) as out:
        step = max(1, memory // _BYTES_WHILE_SPREADING)
        records = _records(blocks, nodes, COLUMN[by], step, out.record_type)
        _write_rows(records, edges, 0, nodes, out, memory, Path(scratch))
        if out.entries != edges:
            raise ValueError(f"{edges:,} edges announced, {out.entries:,} came")


def map_csr(directory: Path) -> Csr:
    """A CSR written by `csr_out_of_core`, memory-mapped."""
    return Csr(*(map_array(directory / f"{name}.npy") for name in CSR_FILES))


class CsrWriter:
    """The three files of a CSR, written row range after row range."""

    def __init__(self, directory: Path, nodes: int, edges: int) -> None:
        self.entries = 0
        self.record_type = np.promote_types(index_type(nodes), index_type(edges))
        self._files = ExitStack()
        types = {"offsets": np.int64, "neighbours": index_type(nodes), "edge": index_type(edges)}
        self._offsets, self._neighbours, self._edge = (
            self._files.enter_context(NpyWriter(directory / f"{name}.npy", types[name])) for name in CSR_FILES
        )
        self._offsets.append(np.zeros(1, np.int64))

    def write_entries(self, neighbours: NDArray[Any], edge: NDArray[Any]) -> None:
        """Add entries to the row under way."""
        self._neighbours.append(neighbours)
        self._edge.append(edge)
        self.entries += len(edge)

    def end_rows(self, ends: NDArray[np.int64]) -> None:
        """Say where rows end whose entries have been written."""
        self._offsets.append(ends)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._files.__exit__(kind, error, trace)


def _write_rows(
    records: Iterable[Records], count: int, first: int, rows: int, out: CsrWriter, memory: int, scratch: Path
) -> None:
    """Sort and write rows first … first + rows − 1, whose `count` records come in stream order."""
    needed = (count + rows) * _BYTES_WHILE_SORTING
    if needed <= memory:
        _sort_in_memory(records, count, first, rows, out)
    elif rows == 1:
        for block in records:
            out.write_entries(block[:, 1], block[:, 2])
        out.end_rows(np.array([out.entries]))
    else:
        bits = min(MOST_BUCKET_BITS, max(bucket_bits(count), (needed // memory).bit_length()))
        shift = max(0, (rows - 1).bit_length() - bits)
        with Buckets(scratch, -(-rows >> shift), out.record_type, 3) as ranges:
            for block in records:
                ranges.append((block[:, 0] - first) >> shift, block)
            ranges.finish()
            for number, size in enumerate(ranges.sizes.tolist()):
                start = number << shift
                chunks = ranges.chunks(number, max(1, memory // _BYTES_WHILE_SPREADING))
                below = scratch / f"range-{number}"
                _write_rows(chunks, size, first + start, min(1 << shift, rows - start), out, memory, below)
                ranges.remove(number)


def _sort_in_memory(records: Iterable[Records], count: int, first: int, rows: int, out: CsrWriter) -> None:
    whole, at = np.empty((count, 3), out.record_type), 0
    for block in records:
        if at + len(block) > count:
            raise ValueError(f"more than the {count:,} edges announced came")
        whole[at : at + len(block)] = block
        at += len(block)
    ends = np.empty(rows, np.int64)
    neighbours, edge = np.empty((2, at), out.record_type)
    sort_records(whole[:at], first, out.entries, ends, neighbours, edge)
    out.write_entries(neighbours, edge)
    out.end_rows(ends)


def _records(
    blocks: Iterable[NDArray[Any]], nodes: int, column: int, step: int, record_type: np.dtype[Any]
) -> Iterator[Records]:
    """The pairs as records, at most `step` at a time."""
    edge = 0
    for block in blocks:
        for start in range(0, len(block), step):
            pairs = block[start : start + step]
            for side in COLUMN.values():
                check_nodes(pairs[:, side], nodes, before=edge)
            records = np.empty((len(pairs), 3), record_type)
            records[:, 0] = pairs[:, column]
            records[:, 1] = pairs[:, 1 - column]
            records[:, 2] = np.arange(edge, edge + len(pairs))
            edge += len(pairs)
            yield records
