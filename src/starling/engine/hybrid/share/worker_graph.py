"""The part of a graph that one worker holds: the shards of its parts joined into one.

Workers take consecutive parts, so that a worker owns a contiguous range of global ids too, and what holds for a part (owned rows
first, then mirrors in ascending global id, which is by owner) holds for the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.manifest import Table
from starling.core.once import made_once
from starling.engine.hybrid.layers.plan import WorkerLayer, listed_layer
from starling.engine.hybrid.layers.split_edges import SplitEdges
from starling.engine.hybrid.messages.traffic import Traffic, make_traffic
from starling.kernels.adjacency import NO_NUMBERS, Adjacency, adjacency
from starling.kernels.csr import Csr
from starling.kernels.degrees import count_numbers
from starling.plan.batch import Block
from starling.store.graph import CsrTable
from starling.store.parts import Parts, Shard
from starling.store.parts_manifest import PartsManifest

Hearers: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int32]]
"""Own rows, and for each the part that hears of it."""


def parts_of_worker(worker: int, workers: int, parts: int) -> range:
    """The consecutive parts a worker takes, as equally many as can be."""
    return range(parts * worker // workers, parts * (worker + 1) // workers)


def bounds_of_workers(manifest: PartsManifest, workers: int) -> NDArray[np.int64]:
    """Worker w owns the global ids from the w-th of these to the next, less one."""
    starts = [parts_of_worker(worker, workers, manifest.parts).start for worker in range(workers)]
    return np.array([*(manifest.offsets[start] for start in starts), manifest.nodes], np.int64)


@dataclass(frozen=True, eq=False)
class WorkerGraph:
    """Rows are N owned nodes, then H mirrors. `incoming` has a list for every owned row; in a vertex-cut for mirrors too.

    `part` is the part that owns each row, `position` its place in the imported graph, `in_degree` that in the whole graph,
    `looped` whether its node has a self-loop there (None: none has). `traffic` names all rows that anybody mirrors.
    """

    manifest: PartsManifest
    shards: tuple[Shard, ...]
    incoming: Csr
    position: NDArray[np.int64]
    in_degree: NDArray[np.int64]
    part: NDArray[np.int32]
    traffic: Traffic
    looped: NDArray[np.bool_] | None = None
    spread: bool = False
    """Whether in-edges of one node lie with several workers, as in a vertex-cut."""
    kept: NDArray[np.int64] | None = None
    """Which entries of the stored lists `incoming` has, where some are left out."""
    columns: Callable[[str], NDArray[Any]] | None = None
    """Edge tables by name for lists that are not the shards' own; all workers ask for one together."""
    hearers: tuple[Hearers, ...] | None = None
    """`heard_by`, where lists have others than the shards tell of (`hearers_of`)."""

    @property
    def owned(self) -> int:
        """N."""
        return self.traffic.owned

    @property
    def rows(self) -> int:
        """N + H."""
        return self.traffic.rows

    @made_once
    def whole_layer(self) -> WorkerLayer:
        """A layer with all rows and edges, made once, so that what is prepared for it is made once."""
        lists = self.incoming
        block = Block(lists.offsets, lists.neighbours.astype(np.int32, copy=False), NO_NUMBERS, self.rows)
        return listed_layer(block, np.arange(self.rows), self.owned, self.traffic)

    @property
    def whole_split(self) -> SplitEdges[Adjacency]:
        """All edges by the owner of their source, made once."""
        return self.whole_layer.edges.split(numbered=False)

    @made_once
    def adjacency(self) -> Adjacency:
        """`incoming` as kernels see it."""
        return adjacency(self.incoming.offsets, self.incoming.neighbours.astype(np.int32, copy=False), self.rows)

    @cached_property
    def heard_here(self) -> NDArray[np.int32]:
        """How many entries of `incoming` name each row."""
        return count_numbers(self.incoming.neighbours, self.rows).astype(np.int32)

    def node_column(self, name: str) -> NDArray[Any]:
        """A node table of the owned rows, in memory."""
        if not self.shards:
            return _no_rows(self.manifest.node_tables[name])
        return np.concatenate([_dense(shard.node_table(name), name) for shard in self.shards])

    def edge_column(self, name: str) -> NDArray[Any]:
        """An edge table, a row for each entry of `incoming`."""
        if self.columns is None:
            return self.stored_columns(name)
        values = self.columns(name)
        return values if self.kept is None else values[self.kept]

    @property
    def stored_columns(self) -> StoredColumns:
        """The shards' edge tables, a row for each entry of `incoming`."""
        return StoredColumns(self.manifest, self.shards, self.kept if self._merged is None else self._merged)

    def only(self, chosen: NDArray[np.bool_]) -> WorkerGraph:
        """The same rows with some of the entries of `incoming`; what is counted over the whole graph is still that of all."""
        lists, kept = self.incoming, np.flatnonzero(chosen)
        before = np.concatenate([[0], np.cumsum(chosen)])
        left = Csr(before[lists.offsets], lists.neighbours[kept], lists.edge[kept])
        return replace(self, incoming=left, kept=kept if self.kept is None else self.kept[kept])

    @cached_property
    def heard_by(self) -> tuple[Hearers, ...]:
        """By worker: own rows that it mirrors, and for which of its parts, a pair for each; nobody for this worker itself.

        Pairs are in the order of the row's part, the part that hears, and the row.
        """
        if self.hearers is not None:
            return self.hearers
        return tuple(_pairs_sent(self.shards, self._parts_of(worker)) for worker in range(len(self.traffic.send)))

    def _parts_of(self, worker: int) -> range:
        theirs = parts_of_worker(worker, len(self.traffic.send), self.manifest.parts)
        return range(0) if self.shards[0].part in theirs else theirs

    @cached_property
    def _merged(self) -> NDArray[np.int64] | None:
        """Where the entries of `incoming` stand among the shards' laid end to end; None where they are those."""
        if not self.spread or len(self.shards) == 1:
            return None
        edges = np.concatenate([_lists(shard).edge for shard in self.shards])
        order = np.argsort(edges, kind="stable")
        return order[np.searchsorted(edges, self.incoming.edge, sorter=order)]


@dataclass(frozen=True, eq=False)
class StoredColumns:
    """Edge tables of shards, laid end to end, a row for each entry or for each of the `chosen` ones."""

    manifest: PartsManifest
    shards: tuple[Shard, ...]
    chosen: NDArray[np.int64] | None

    def __call__(self, name: str) -> NDArray[Any]:
        """One of the tables."""
        if not self.shards:
            return _no_rows(self.manifest.edge_tables[name])
        tables = [_dense(shard.edge_table(name), name)[: len(_lists(shard).edge)] for shard in self.shards]
        values = np.concatenate(tables)
        return values if self.chosen is None else values[self.chosen]


def hearers_of(
    lists: Csr, part: NDArray[np.int32], traffic: Traffic, tell: Callable[[list[NDArray[Any]]], list[NDArray[np.int64]]]
) -> tuple[Hearers, ...]:
    """`WorkerGraph.heard_by` of other lists than the shards': `tell` gives every worker what the others' lists hear of its rows."""
    hearing = np.repeat(part[: traffic.owned], np.diff(lists.offsets[: traffic.owned + 1]))
    mirrored = np.flatnonzero(lists.neighbours[: len(hearing)] >= traffic.owned)
    parts = int(part.max(initial=0)) + 1
    pairs = np.unique(lists.neighbours[mirrored].astype(np.int64) * parts + hearing[mirrored])  # a row and a part, each once
    row, hears = pairs // parts, pairs % parts
    told = []
    for worker in range(len(traffic.send)):
        theirs = traffic.mirrors_of(worker)
        mine = np.flatnonzero((row >= theirs.start) & (row < theirs.stop))
        mine = mine[np.lexsort((row[mine], hears[mine], part[row[mine]]))]
        told.append(np.concatenate([row[mine] - theirs.start, hears[mine]]))
    heard = [pairs.reshape(2, -1) for pairs in tell(told)]
    return tuple((rows[place], by.astype(np.int32)) for rows, (place, by) in zip(traffic.send, heard, strict=True))


def open_worker_graph(parts: Parts, worker: int, workers: int) -> WorkerGraph:
    """The graph of one worker out of so many."""
    manifest = parts.manifest
    if any(record.dropped for record in manifest.shards):
        raise InputError(
            f"{parts.path} was cut with zero halo hops, so edges between parts are missing. Partition with --halo-hops 1."
        )
    mine = parts_of_worker(worker, workers, len(parts))
    shards = tuple(parts.shard(part) for part in mine)
    bounds = bounds_of_workers(manifest, workers)
    first, last = int(bounds[worker]), int(bounds[worker + 1])
    known = [_known_globals(shard) for shard in shards]
    mirrors = _outside(known, first, last)
    columns = [_to_rows(ids, first, last, mirrors) for ids in known]
    traffic = make_traffic(
        last - first,
        [_sent_to(shards, first, parts_of_worker(w, workers, len(parts)), w == worker) for w in range(workers)],
        np.diff(np.searchsorted(mirrors, bounds)).tolist(),
    )
    globals_ = np.concatenate([np.arange(first, last), mirrors])
    position, in_degree = np.empty(len(globals_), np.int64), np.empty(len(globals_), np.int64)
    looped = np.zeros(len(globals_), np.bool_) if manifest.looped else None
    for shard, rows in zip(shards, columns, strict=True):
        position[rows], in_degree[rows] = shard.position[: len(rows)], shard.in_degree[: len(rows)]
        if looped is not None and shard.looped is not None:
            looped[rows] = shard.looped[: len(rows)]
    spread = manifest.kind == "vertex-cut"
    incoming = _joined(shards, columns, len(globals_), spread=spread)
    return WorkerGraph(manifest, shards, incoming, position, in_degree, part_of(manifest, globals_), traffic, looped, spread)


def part_of(manifest: PartsManifest, ids: NDArray[np.int64]) -> NDArray[np.int32]:
    """The part that owns each global id."""
    # empty parts share their offset with the next one: the owner is the last part that begins there, which has nodes
    return (np.searchsorted(manifest.offsets, ids, side="right") - 1).astype(np.int32)


def _known_globals(shard: Shard) -> NDArray[np.int64]:
    """Global ids of a shard's owned nodes and of its first halo hop: all that its owned rows' lists name."""
    near = shard.record.halo[0] if shard.record.halo else 0
    return np.concatenate([shard.first_global + np.arange(shard.owned), shard.halo_global[:near]]).astype(np.int64)


def _outside(known: Sequence[NDArray[np.int64]], first: int, last: int) -> NDArray[np.int64]:
    ids = np.concatenate([np.empty(0, np.int64), *known])
    return np.unique(ids[(ids < first) | (ids >= last)])


def _to_rows(ids: NDArray[np.int64], first: int, last: int, mirrors: NDArray[np.int64]) -> NDArray[np.int32]:
    own = (ids >= first) & (ids < last)
    return np.where(own, ids - first, last - first + np.searchsorted(mirrors, ids)).astype(np.int32)


def _sent_to(shards: Sequence[Shard], first: int, receiving: range, myself: bool) -> NDArray[np.int64]:
    """Own rows that parts of another worker hold in their first halo hop, ascending, each once."""
    found = [np.empty(0, np.int64)]
    for shard in shards if not myself else ():
        bounds = np.asarray(shard.send_offsets)[0]
        rows = shard.send_rows[bounds[receiving.start] : bounds[receiving.stop]]
        found.append(np.asarray(rows, np.int64) + (shard.first_global - first))
    return np.unique(np.concatenate(found))


def _pairs_sent(shards: Sequence[Shard], receiving: range) -> Hearers:
    rows, parts = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for shard in shards:
        bounds = np.asarray(shard.send_offsets)[0]
        for part in receiving:
            sent = np.asarray(shard.send_rows[bounds[part] : bounds[part + 1]], np.int64)
            rows.append(sent + (shard.first_global - shards[0].first_global))
            parts.append(np.full(len(sent), part, np.int32))
    return np.concatenate(rows), np.concatenate(parts)


def _lists(shard: Shard) -> Csr:
    """A shard's lists of its owned rows; in a vertex-cut those of all its rows."""
    lists = shard.incoming
    if shard.parts.kind == "vertex-cut" or lists.rows == shard.owned:
        return lists
    end = int(lists.offsets[shard.owned])
    return Csr(lists.offsets[: shard.owned + 1], lists.neighbours[:end], lists.edge[:end])


def _joined(shards: Sequence[Shard], columns: Sequence[NDArray[np.int32]], rows: int, *, spread: bool) -> Csr:
    """The lists of all shards in the worker's rows; a list that several hold pieces of keeps the imported order."""
    lists = [_lists(shard) for shard in shards]
    neighbours = _concatenated([_in_rows(*given) for given in zip(shards, lists, columns, strict=True)], np.int32)
    edge = _concatenated([np.asarray(part.edge) for part in lists], np.int64)
    if spread:
        owner = _concatenated(
            [np.repeat(column[: part.rows], np.diff(part.offsets)) for part, column in zip(lists, columns, strict=True)],
            np.int32,
        )
        order = np.lexsort((edge, owner))
        counts = np.bincount(owner, minlength=rows)
        return Csr(np.concatenate([[0], np.cumsum(counts)]), neighbours[order], edge[order])
    lengths = _concatenated([np.diff(part.offsets) for part in lists], np.int64)
    return Csr(np.concatenate([[0], np.cumsum(lengths)]), neighbours, edge)


def _in_rows(shard: Shard, lists: Csr, column: NDArray[np.int32]) -> NDArray[np.int32]:
    """The neighbours in a shard's lists as rows of the worker."""
    try:
        rows: NDArray[np.int32] = column[lists.neighbours]
    except IndexError as error:
        raise InputError(
            f"Lists of part {shard.part} in {shard.path.parent} name rows that it does not have, so they are damaged. See what "
            f"else is: starling inspect {shard.path.parent} --verify."
        ) from error
    return rows


def _concatenated(arrays: Sequence[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *arrays]) if len(arrays) != 1 else arrays[0]


def _no_rows(table: Table) -> NDArray[Any]:
    """A table of a worker that has no part."""
    return np.empty((0, *table.shape[1:]), table.dtype)


def _dense(table: NDArray[Any] | CsrTable, name: str) -> NDArray[Any]:
    if isinstance(table, CsrTable):
        raise InputError(f"Expected the table '{name}' as a plain array, got a sparse one. Import it again as an array.")
    return np.asarray(table)
