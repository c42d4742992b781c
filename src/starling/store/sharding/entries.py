"""The edges of every part, sorted by the row they feed: the half-way house between an edge stream and shards.

An *entry* is one edge as a part holds it: the global id of its source, its position in the imported graph, and its row of each
edge table. Each of these is a column, a file a part. Entries stand in the order of the rows they belong to, and inside
a row in imported order.

For an edge-cut the row of an edge is its destination, owned by the part. For a vertex-cut it may be a mirror, so rows are
numbered by a code: owned nodes first, then all others in ascending global id. That is the order of local rows, gaps apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.errors import InputError
from starling.core.npy import NpyReader
from starling.core.progress import Progress
from starling.kernels.csr import index_type
from starling.kernels.parallel import parallel_for
from starling.store.sharding.budget import Budget
from starling.store.sharding.by_key import readings, rows_by_key
from starling.store.sharding.node_order import NodeOrder
from starling.store.sharding.part_files import PartFiles
from starling.store.sharding.rows import Column, KeyedRows, RowSource
from starling.store.sharding.survey import Survey
from starling.stream.ahead import blocks_ahead, read_ahead
from starling.stream.edges import EdgeBlock, EdgeStream

SOURCE, EDGE, ROW = "source", "edge", "row"
BLOCK_ENTRIES = 1 << 20


@dataclass(frozen=True)
class Entries:
    """Sorted entries on disk, a file for each of `columns` and part; part q has bounds[q + 1] − bounds[q] of them."""

    directory: Path
    bounds: NDArray[np.int64]
    columns: tuple[str, ...]

    def path(self, column: str, part: int) -> Path:
        """The file of one column of one part."""
        return entry_path(self.directory, column, part)

    def blocks(self, column: str, part: int) -> Iterator[NDArray[Any]]:
        """One column of one part, block by block."""
        yield from blocks_ahead(NpyReader(self.path(column, part)), BLOCK_ENTRIES)

    def remove(self, part: int) -> None:
        """Delete what is left of a part's files."""
        for column in self.columns:
            self.path(column, part).unlink(missing_ok=True)


def entry_path(directory: Path, column: str, part: int) -> Path:
    """The file of one column of one part."""
    return directory / column / f"{part:05d}.npy"


def table_column(table: str) -> str:
    """The column of an edge table."""
    return f"table.{table}"


def sort_edges(
    stream: EdgeStream,
    order: NodeOrder,
    survey: Survey,
    directory: Path,
    *,
    edge_part: NpyReader | None,
    tables: dict[str, NpyReader],
    budget: Budget,
    threads: int | None,
    progress: Progress,
) -> Entries:
    """Write each part's entries. Through bucket files that is 12 bytes of disk an edge besides, given back as it goes."""
    node = Column(np.dtype(index_type(order.nodes)))
    columns = {SOURCE: node, EDGE: Column(np.dtype(index_type(stream.edges)))}
    columns |= {table_column(name): Column(reader.dtype, reader.shape[1:]) for name, reader in tables.items()}
    if edge_part is None:
        source, bounds = _rows_of_destinations(stream, order, survey, columns, tables, threads)
    else:
        columns[ROW] = node
        source, bounds = _rows_of_parts(stream, order, survey, columns, tables, edge_part, threads)
    with ExitStack() as stack:
        writers = {}
        for name, column in columns.items():
            (directory / name).mkdir()
            paths = [entry_path(directory, name, part) for part in range(order.parts)]
            writers[name] = stack.enter_context(PartFiles(paths, bounds, column.dtype, column.shape))
        memory = budget.left()
        total = stream.edges * readings(source, memory)
        task = stack.enter_context(progress.task("Sorting edges into parts", total))
        for name, block in rows_by_key(source, scratch=directory / "buckets", memory=memory, threads=threads, task=task):
            if name == SOURCE:  # relabelled only now, since edges may be read several times
                for start in range(0, len(block), BLOCK_ENTRIES):
                    positions = block[start : start + BLOCK_ENTRIES]
                    _run(threads, _renumber, positions, order.global_of_position)
                    writers[name].append(positions)
            else:
                writers[name].append(block)
    return Entries(directory, bounds, tuple(columns))


def _rows_of_destinations(
    stream: EdgeStream,
    order: NodeOrder,
    survey: Survey,
    columns: dict[str, Column],
    tables: dict[str, NpyReader],
    threads: int | None,
) -> tuple[RowSource, NDArray[np.int64]]:
    """An edge-cut: each edge is with the owner of its destination. In-degrees tell how many entries each row has."""
    number = order.global_of_position

    def blocks() -> Iterator[KeyedRows]:
        for block in read_ahead(stream.blocks()):
            keys = np.array(block.pairs[:, 1], number.dtype)
            _run(threads, _renumber, keys, number)
            yield KeyedRows(keys, _edge_columns(block, columns, tables))

    ends = np.zeros(order.nodes + 1, np.int64)
    np.cumsum(survey.in_degree[order.position_of_global], out=ends[1:])
    return RowSource(columns, blocks, stream.edges, order.nodes, ends=ends), ends[order.offsets]


def _rows_of_parts(
    stream: EdgeStream,
    order: NodeOrder,
    survey: Survey,
    columns: dict[str, Column],
    tables: dict[str, NpyReader],
    edge_part: NpyReader,
    threads: int | None,
) -> tuple[RowSource, NDArray[np.int64]]:
    """A vertex-cut: each edge has a part of its own. Keys are (part, row code), and how many a row has is not known."""
    number, offsets, limit = order.global_of_position, order.offsets, max(1, order.nodes * order.parts)

    def keyed(pairs: NDArray[Any], parts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        keys, rows = np.empty(len(pairs), index_type(limit)), np.array(pairs[:, 1], number.dtype)
        _run(threads, _renumber, rows, number)
        _run(threads, _code_rows, rows, parts, offsets, keys)
        return keys, rows

    def blocks() -> Iterator[KeyedRows]:
        for block in read_ahead(stream.blocks()):
            parts = edge_part.read(block.start, block.start + len(block.pairs))
            keys, rows = keyed(block.pairs, parts)
            yield KeyedRows(keys, {ROW: rows, **_edge_columns(block, columns, tables)})

    sizes = np.zeros(order.parts, np.int64)
    sampled = [np.zeros(0, edge_part.dtype)]
    start = 0
    for parts in edge_part.blocks(BLOCK_ENTRIES):
        if int(parts.max(initial=0)) >= order.parts:
            raise InputError(
                f"{edge_part.path} gives an edge to part {int(parts.max())}, but there are parts 0 … {order.parts - 1} only. "
                "Partition again."
            )
        sizes += np.bincount(parts, minlength=order.parts)
        sampled.append(parts[-start % survey.stride :: survey.stride].copy())
        start += len(parts)
    sample = keyed(survey.sample, np.concatenate(sampled))[0]
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    return RowSource(columns, blocks, stream.edges, limit, sample=sample), bounds


def _edge_columns(block: EdgeBlock, columns: dict[str, Column], tables: dict[str, NpyReader]) -> dict[str, NDArray[Any]]:
    """Source (still as a position), edge number and table rows of a block of edges."""
    stop = block.start + len(block.pairs)
    values = {table_column(name): reader.read(block.start, stop) for name, reader in tables.items()}
    return {SOURCE: block.pairs[:, 0], EDGE: np.arange(block.start, stop, dtype=columns[EDGE].dtype), **values}


def _run(threads: int | None, kernel: Callable[..., None], rows: NDArray[Any], *arrays: NDArray[Any]) -> None:
    parallel_for(len(rows), lambda start, stop: kernel(rows, *arrays, start, stop), threads)


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
def _renumber(nodes: NDArray[Any], number: NDArray[Any], start: int, stop: int) -> None:
    """Positions become global ids, in place."""
    for i in range(start, stop):
        nodes[i] = number[nodes[i]]


@compiled
def _code_rows(
    nodes: NDArray[Any], parts: NDArray[Any], offsets: NDArray[np.int64], keys: NDArray[Any], start: int, stop: int
) -> None:
    """Global ids become row codes of the part of each edge, in place; keys are (part, row code)."""
    for i in range(start, stop):
        part = parts[i]
        code = row_code(nodes[i], offsets[part], offsets[part + 1])
        nodes[i] = code
        keys[i] = part * offsets[-1] + code
