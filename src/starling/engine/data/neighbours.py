"""Neighbours of any rows of a partitioned graph, one hop at a time, wherever their lists lie.

Rows are taken apart by the part they lie in. Lists of parts on this host are sampled here; for others their owners are asked, who
sample on their own shards and send what was taken. Choices are keyed by a row's position in the imported graph, so it makes no
difference who draws: the answer is the same for any number of workers, threads and parts.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.team import Team
from starling.engine.data.local import global_ids, local_source
from starling.engine.data.places import Places
from starling.engine.data.rounds import receive_arrays, send_array
from starling.engine.hybrid.exchange import Calls
from starling.kernels.sampling import Taken
from starling.kernels.stitch import Piece, group_by_range, stitch
from starling.plan.hops import HopSampler, Moment
from starling.plan.source import ENDS_ALONE, EdgeColumns, NeighbourSource, source_of_shard

MakeHops = Callable[[NeighbourSource], Sequence[HopSampler]]
"""From a part's lists to a sampler for each hop, the targets' own first."""
_ROW_SCALE, _EDGE_SCALE = 1, 2


class Neighbourhood(ABC):
    """Rows with neighbours. What a row is called here is the subclass's choice; `ids` tells its global id."""

    rows: int
    """Rows are numbers below this."""

    @abstractmethod
    def rows_of(self, ids: NDArray[Any]) -> NDArray[Any]:
        """The rows of targets given by global id, as kernels want them."""

    @abstractmethod
    def ids(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Global ids of rows."""

    @abstractmethod
    def take(self, rows: NDArray[Any], moment: Moment, calls: Calls) -> Taken:
        """In-edges of the rows of one hop, each row once; all workers ask for the same hops in the same order."""


class _PartLists:
    """One part's lists: the samplers of its hops, and what its rows are called elsewhere."""

    def __init__(self, hops: Sequence[HopSampler], first: int, ids: NDArray[Any] | None, first_entry: int) -> None:
        self.hops, self.first, self.ids, self.first_entry = hops, first, ids, first_entry

    def take(self, rows: NDArray[Any], places: NDArray[np.int64], moment: Moment) -> Piece:
        taken = self.hops[moment.hop].take(rows[places] - rows.dtype.type(self.first), moment)
        return Piece(places, taken, self.ids, self.first_entry)


class AllParts(Neighbourhood):
    """The whole partitioned graph; rows are global ids."""

    def __init__(self, places: Places, make_hops: MakeHops, columns: EdgeColumns = ENDS_ALONE, *, entries: bool = True) -> None:
        self.rows = places.parts.manifest.nodes
        self._places, self._make_hops, self._columns, self._entries = places, make_hops, columns, entries
        self._lists: dict[int, _PartLists] = {}
        self._lock = threading.Lock()
        for part in places.own:  # others of this host are opened when a row of theirs is first met
            self._part(part)

    def rows_of(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Global ids are rows."""
        return np.ascontiguousarray(ids, self._places.id_type)

    def ids(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows are global ids."""
        return rows

    def take(self, rows: NDArray[Any], moment: Moment, calls: Calls) -> Taken:
        """From parts of this host at once, from others by a round with their owners."""
        places, team, far = self._places, self._places.team, self._places.far
        grouped = group_by_range(rows, places.parts.offsets)
        if not far:
            return self._joined(
                len(rows), [self._piece(part, rows, grouped.of(part, part + 1), moment) for part in places.here]
            )
        theirs = {worker: grouped.of(places.parts_of(worker).start, places.parts_of(worker).stop) for worker in far}
        asked = team.ask(far, calls.forward(), {worker: rows[found] for worker, found in theirs.items()})
        tags = [calls.forward() for _ in range(4)]
        for worker, wanted in asked.items():
            _send(team, worker, tags, self._own(wanted.astype(rows.dtype), moment), entries=self._entries)
        pieces = [self._piece(part, rows, grouped.of(part, part + 1), moment) for part in places.here]
        counts = {worker: len(found) for worker, found in theirs.items()}
        for worker, taken in _receive(team, tags, counts, places.id_type, entries=self._entries).items():
            pieces.append(Piece(theirs[worker], taken))
        return self._joined(len(rows), pieces)

    def _own(self, rows: NDArray[Any], moment: Moment) -> Taken:
        """What somebody else asked for: rows of this worker's parts."""
        grouped = group_by_range(rows, self._places.parts.offsets)
        return self._joined(
            len(rows), [self._piece(part, rows, grouped.of(part, part + 1), moment) for part in self._places.own]
        )

    def _piece(self, part: int, rows: NDArray[Any], places: NDArray[np.int64], moment: Moment) -> Piece | None:
        return self._part(part).take(rows, places, moment) if len(places) else None

    def _joined(self, rows: int, pieces: Sequence[Piece | None]) -> Taken:
        found = [piece for piece in pieces if piece is not None]
        if len(found) == 1 and found[0].ids is None and found[0].first_entry == 0 and len(found[0].places) == rows:
            return found[0].taken  # one part has them all
        return stitch(rows, found, self._places.id_type, entries=self._entries)

    def _part(self, part: int) -> _PartLists:
        with self._lock:
            if part not in self._lists:
                shard = self._places.parts.shard(part)
                hops = self._make_hops(source_of_shard(shard, self._columns))
                alone = len(self._places.parts) == 1
                ids = None if alone else global_ids(shard).astype(self._places.id_type)
                first_entry = int(self._places.first_entry[part])
                self._lists[part] = _PartLists(hops, shard.first_global, ids, first_entry)
            return self._lists[part]


class OwnParts(Neighbourhood):
    """This worker's parts, each by itself with its halo (`--local-only`): nothing is asked of anybody.

    A row stands for a node as one part sees it, so a halo node of two parts is two rows: `bases` [parts + 1] is where each part's
    local rows begin.
    """

    def __init__(self, places: Places, make_hops: MakeHops, columns: EdgeColumns = ENDS_ALONE, *, entries: bool = True) -> None:
        self._places, self._entries = places, entries
        shards = [places.parts.shard(part) for part in places.own]
        self._bases = np.concatenate([[0], np.cumsum([shard.local for shard in shards])]).astype(np.int64)
        self.rows = int(self._bases[-1])
        self._ids = np.concatenate([np.empty(0, np.int64), *(global_ids(shard) for shard in shards)])
        self._lists = [
            _PartLists(
                make_hops(local_source(shard, columns)),
                int(base),
                np.arange(base, base + shard.local, dtype=np.int32),
                int(places.first_entry[shard.part]),
            )
            for shard, base in zip(shards, self._bases[:-1], strict=True)
        ]

    def rows_of(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Own nodes, each in the part that owns it."""
        first, offsets = self._places.own.start, self._places.parts.offsets
        part = np.searchsorted(offsets, ids, side="right") - 1
        rows: NDArray[Any] = (self._bases[part - first] + ids - offsets[part]).astype(np.int32)
        return rows

    def ids(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The nodes that rows stand for."""
        ids: NDArray[Any] = self._ids[rows]
        return ids

    def take(self, rows: NDArray[Any], moment: Moment, calls: Calls) -> Taken:
        """From each part what it has."""
        grouped = group_by_range(rows, self._bases)
        pieces = [
            lists.take(rows, places, moment)
            for number, lists in enumerate(self._lists)
            if len(places := grouped.of(number, number + 1))
        ]
        return stitch(len(rows), pieces, np.int32, entries=self._entries)


def _send(team: Team, peer: int, tags: Sequence[int], taken: Taken, *, entries: bool) -> None:
    """An answer: which scales it has and the lists' lengths; then neighbours, entries, scales, of sizes that these tell."""
    kinds = _ROW_SCALE * (taken.row_scale is not None) + _EDGE_SCALE * (taken.edge_scale is not None)
    lengths = np.concatenate([[kinds], np.diff(taken.offsets)])
    send_array(team, peer, tags[0], lengths.astype(np.int32))
    send_array(team, peer, tags[1], taken.neighbours)
    if entries:
        send_array(team, peer, tags[2], taken.entry.astype(np.int64))
    for scale in (taken.row_scale, taken.edge_scale):
        if scale is not None:
            send_array(team, peer, tags[3], scale)


def _receive(team: Team, tags: Sequence[int], rows: dict[int, int], id_type: Any, *, entries: bool) -> dict[int, Taken]:
    """The answers of all workers that were asked, each about so many rows."""
    lengths = receive_arrays(team, tags[0], {worker: count + 1 for worker, count in rows.items()}, np.int32)
    kinds = {worker: int(values[0]) for worker, values in lengths.items()}
    offsets = {worker: np.concatenate([[0], np.cumsum(values[1:], dtype=np.int64)]) for worker, values in lengths.items()}
    edges = {worker: int(ends[-1]) for worker, ends in offsets.items()}
    neighbours = receive_arrays(team, tags[1], edges, id_type)
    entry = receive_arrays(team, tags[2], edges, np.int64) if entries else {}
    by_row = receive_arrays(team, tags[3], {w: count for w, count in rows.items() if kinds[w] & _ROW_SCALE}, np.float32)
    by_edge = receive_arrays(team, tags[3], {w: count for w, count in edges.items() if kinds[w] & _EDGE_SCALE}, np.float32)
    none = np.empty(0, np.int64)
    return {
        worker: Taken(offsets[worker], neighbours[worker], entry.get(worker, none), by_row.get(worker), by_edge.get(worker))
        for worker in rows
    }
