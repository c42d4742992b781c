"""The edges of every part, sorted by the row they feed: the half-way house between an edge stream and shards.

An *entry* is one edge as a part holds it: the global id of its source, its position in the imported graph, and its row of each
edge table. Each of these is a column, a file a part. Entries stand in the order of the rows they belong to, and inside
a row in imported order.

For an edge-cut the row of an edge is its destination, owned by the part. For a vertex-cut it may be a mirror, so rows are
numbered by a code: owned nodes first, then all others in ascending global id. That is the order of local rows, gaps apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.errors import InputError
from starling.core.npy import NpyReader
from starling.core.progress import Progress, Task
from starling.kernels.csr import index_type
from starling.kernels.parallel import parallel_for
from starling.store.sharding.external_sort import KEY, Column, ExternalSort
from starling.store.sharding.node_order import NodeOrder
from starling.store.sharding.part_files import PartFiles
from starling.store.sharding.survey import Survey
from starling.stream.edges import EdgeBlock, EdgeStream

SOURCE, EDGE, ROW = "source", "edge", "row"
BLOCK_ENTRIES = 1 << 20


@dataclass(frozen=True)
class Entries:
    """Sorted entries on disk: part q has bounds[q + 1] − bounds[q] of them."""

    directory: Path
    bounds: NDArray[np.int64]
    tables: dict[str, Column]

    def path(self, column: str, part: int) -> Path:
        """The file of one column of one part."""
        return self.directory / column / f"{part:05d}.npy"

    def blocks(self, column: str, part: int) -> Iterator[NDArray[Any]]:
        """One column of one part, block by block."""
        yield from NpyReader(self.path(column, part)).blocks(BLOCK_ENTRIES)

    def remove(self, column: str, part: int) -> None:
        """Delete a file that is no longer needed."""
        self.path(column, part).unlink(missing_ok=True)


def sort_edges(
    stream: EdgeStream,
    order: NodeOrder,
    survey: Survey,
    directory: Path,
    *,
    edge_part: NpyReader | None,
    tables: dict[str, NpyReader],
    memory: int,
    threads: int | None,
    progress: Progress,
) -> Entries:
    """Read the edges once and write each part's entries. Disk: about 12 bytes an edge besides, given back as it goes."""
    table_columns = {name: Column(reader.dtype, reader.shape[1:]) for name, reader in tables.items()}
    columns = {
        SOURCE: Column(np.dtype(index_type(order.nodes))),
        EDGE: Column(np.dtype(index_type(stream.edges))),
        **table_columns,
    }
    router = _Router(order, edge_part, threads)
    sample = router.route_sample(survey)
    with ExternalSort(
        directory / "buckets",
        columns,
        sample=sample,
        rows=stream.edges,
        limit=router.key_limit,
        memory=memory,
        threads=threads,
    ) as sorter:
        with progress.task("Spreading edges over parts", stream.edges) as task:
            for block in stream.blocks():
                keys, sources = router.route(block)
                last = block.start + len(keys)
                values = {name: reader.read(block.start, last) for name, reader in tables.items()}
                edge = np.arange(block.start, last, dtype=columns[EDGE].dtype)
                sorter.add(keys, {SOURCE: sources, EDGE: edge, **values})
                task.advance(len(keys))
        if edge_part is not None:
            columns[ROW] = columns[SOURCE]
        entries = Entries(directory, router.entry_bounds(survey), table_columns)
        with progress.task("Sorting edges of parts", stream.edges) as task:
            _write_sorted(sorter, entries, columns, order.nodes, task)
    return entries


def _write_sorted(sorter: ExternalSort, entries: Entries, columns: dict[str, Column], nodes: int, task: Task) -> None:
    with ExitStack() as stack:
        writers = {}
        for name, column in columns.items():
            (entries.directory / name).mkdir()
            paths = [entries.path(name, part) for part in range(len(entries.bounds) - 1)]
            writers[name] = stack.enter_context(PartFiles(paths, entries.bounds, column.dtype, column.shape))
        for run in sorter.runs():
            for name, writer in writers.items():
                for block in run.blocks(KEY if name == ROW else name):
                    writer.append(block % nodes if name == ROW else block)
                    task.advance(len(block) if name == EDGE else 0)


class _Router:
    """Says for each edge which part and row it goes to, as one number: the key it is sorted by."""

    def __init__(self, order: NodeOrder, edge_part: NpyReader | None, threads: int | None) -> None:
        self._order, self._edge_part, self._threads = order, edge_part, threads
        self._edges_of_part = np.zeros(order.parts, np.int64)
        self.key_limit = max(1, order.nodes * (1 if edge_part is None else order.parts))

    def route(self, block: EdgeBlock) -> tuple[NDArray[Any], NDArray[Any]]:
        """Keys and global ids of the sources of a block of edges."""
        parts = None
        if self._edge_part is not None:
            parts = self._edge_part.read(block.start, block.start + len(block.pairs))
            if len(parts) and int(parts.max()) >= self._order.parts:
                raise InputError(
                    f"{self._edge_part.path} gives an edge to part {int(parts.max())}, but there are parts 0 … "
                    f"{self._order.parts - 1} only. Partition again."
                )
            self._edges_of_part += np.bincount(parts, minlength=self._order.parts)
        return self._keys(block.pairs, parts)

    def route_sample(self, survey: Survey) -> NDArray[Any]:
        """Keys of the sampled edges."""
        parts = None
        if self._edge_part is not None:
            step = survey.stride * max(1, BLOCK_ENTRIES // survey.stride)
            starts = range(0, self._edge_part.rows, step)
            reads = (self._edge_part.read(start, min(start + step, self._edge_part.rows)) for start in starts)
            parts = np.concatenate([np.zeros(0, np.uint16), *(read[:: survey.stride] for read in reads)])
        return self._keys(survey.sample, parts)[0]

    def entry_bounds(self, survey: Survey) -> NDArray[np.int64]:
        """Where each part's entries begin and end among all; for a vertex-cut, known when every edge was routed."""
        bounds = np.zeros(self._order.parts + 1, np.int64)
        if self._edge_part is not None:
            np.cumsum(self._edges_of_part, out=bounds[1:])
            return bounds
        for part in range(self._order.parts):
            bounds[part + 1] = bounds[part] + survey.in_degree[self._order.positions(part)].sum(dtype=np.int64)
        return bounds

    def _keys(self, pairs: NDArray[Any], parts: NDArray[Any] | None) -> tuple[NDArray[Any], NDArray[Any]]:
        number = self._order.global_of_position
        keys = np.empty(len(pairs), index_type(self.key_limit))
        sources = np.empty(len(pairs), number.dtype)
        if parts is None:
            parallel_for(len(pairs), lambda start, stop: _route(pairs, number, keys, sources, start, stop), self._threads)
        else:
            offsets = self._order.offsets
            parallel_for(
                len(pairs),
                lambda start, stop: _route_by_part(pairs, parts, offsets, number, keys, sources, start, stop),
                self._threads,
            )
        return keys, sources


@compiled
def row_code(node: int, first: int, stop: int) -> int:
    """The row of a node in the part that owns first … stop − 1: owned nodes first, then the others, ascending."""
    if node >= stop:
        return node
    return node - first if node >= first else node + (stop - first)


@compiled
def node_of_row(code: int, first: int, stop: int) -> int:
    """The global id behind a row code; undoes `row_code`."""
    if code >= stop:
        return code
    return code + first if code < stop - first else code - (stop - first)


@compiled
def _route(pairs: NDArray[Any], number: NDArray[Any], keys: NDArray[Any], sources: NDArray[Any], start: int, stop: int) -> None:
    for i in range(start, stop):
        sources[i] = number[pairs[i, 0]]
        keys[i] = number[pairs[i, 1]]


@compiled
def _route_by_part(
    pairs: NDArray[Any],
    parts: NDArray[Any],
    offsets: NDArray[np.int64],
    number: NDArray[Any],
    keys: NDArray[Any],
    sources: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    nodes = len(number)
    for i in range(start, stop):
        part = parts[i]
        sources[i] = number[pairs[i, 0]]
        keys[i] = part * nodes + row_code(number[pairs[i, 1]], offsets[part], offsets[part + 1])
