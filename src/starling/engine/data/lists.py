"""The neighbour lists of all parts, asked about any rows, wherever these lie.

Rows are taken apart by the part they lie in. Lists of parts on this host are looked at here; for others their owners are asked, who
look at their own shards and send what they found. What is made of a part's lists, and what is asked of it, is the caller's choice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from starling.comm.team import Team
from starling.engine.data.local import global_ids
from starling.engine.data.places import Places
from starling.engine.data.rounds import receive_arrays, send_array
from starling.engine.hybrid.messages.calls import Calls
from starling.kernels.sampling import Taken
from starling.kernels.stitch import Grouped, Piece, group_by_range, stitch
from starling.plan.source import EdgeColumns, NeighbourSource, source_of_shard

Lists = TypeVar("Lists")
Limits = NDArray[Any] | None
"""A time for each row that is asked about, where these are seen at different ones."""
_ROW_SCALE, _EDGE_SCALE = 1, 2


@dataclass(frozen=True, eq=False)
class _Opened(Generic[Lists]):
    """One part's lists, and what its rows and entries are called elsewhere."""

    lists: Lists
    first: int
    ids: NDArray[Any] | None
    first_entry: int


@dataclass(frozen=True, eq=False)
class _Asked:
    """Rows that somebody asks about, with their limits, and by part."""

    rows: NDArray[Any]
    limits: Limits
    grouped: Grouped


class AllLists(Generic[Lists]):
    """The lists of the whole partitioned graph, `make` of each part's; rows are global ids. All workers ask in the same order."""

    def __init__(
        self, places: Places, make: Callable[[NeighbourSource], Lists], columns: EdgeColumns, *, entries: bool
    ) -> None:
        self._places, self._make, self._columns, self._entries = places, make, columns, entries
        self._opened: dict[int, _Opened[Lists]] = {}
        self._lock = threading.Lock()
        for part in places.own:  # others of this host are opened when a row of theirs is first met
            self._part(part)

    def edges(
        self, rows: NDArray[Any], calls: Calls, take: Callable[[Lists, NDArray[Any], Limits], Taken], limits: Limits = None
    ) -> Taken:
        """In-edges of rows: what `take` takes of each part's lists, given local rows and their limits."""

        def pieces(parts: Sequence[int], asked: _Asked) -> list[Piece]:
            return [
                Piece(at, take(opened.lists, local, until), opened.ids, opened.first_entry)
                for opened, at, local, until in self._by_part(parts, asked)
            ]

        places, team = self._places, self._places.team
        mine = self._asked(rows, limits)
        if not places.far:
            return self._joined(len(rows), pieces(places.here, mine))
        theirs = self._theirs(mine.grouped)
        asked = self._ask(theirs, rows, limits, calls)
        tags = [calls.next_tag() for _ in range(4)]
        for worker, wanted in asked.items():
            answer = self._joined(len(wanted.rows), pieces(places.own, wanted))
            _send(team, worker, tags, answer, entries=self._entries)
        found = pieces(places.here, mine)
        counts = {worker: len(at) for worker, at in theirs.items()}
        for worker, taken in _receive(team, tags, counts, places.id_type, entries=self._entries).items():
            found.append(Piece(theirs[worker], taken))
        return self._joined(len(rows), found)

    def numbers(
        self,
        rows: NDArray[Any],
        calls: Calls,
        count: Callable[[Lists, NDArray[Any], Limits], NDArray[np.int64]],
        limits: Limits = None,
    ) -> NDArray[np.int64]:
        """A number for each row: what `count` finds in its part's lists, given local rows and their limits."""

        def counted(parts: Sequence[int], asked: _Asked) -> NDArray[np.int64]:
            out = np.zeros(len(asked.rows), np.int64)
            for opened, at, local, until in self._by_part(parts, asked):
                out[at] = count(opened.lists, local, until)
            return out

        places, team = self._places, self._places.team
        mine = self._asked(rows, limits)
        if not places.far:
            return counted(places.here, mine)
        theirs = self._theirs(mine.grouped)
        asked = self._ask(theirs, rows, limits, calls)
        tag = calls.next_tag()
        for worker, wanted in asked.items():
            send_array(team, worker, tag, counted(places.own, wanted))
        out = counted(places.here, mine)
        counts = {worker: len(at) for worker, at in theirs.items()}
        for worker, numbers in receive_arrays(team, tag, counts, np.int64).items():
            out[theirs[worker]] = numbers
        return out

    def _asked(self, rows: NDArray[Any], limits: Limits) -> _Asked:
        return _Asked(rows, limits, group_by_range(rows, self._places.parts.offsets))

    def _by_part(
        self, parts: Sequence[int], asked: _Asked
    ) -> Iterator[tuple[_Opened[Lists], NDArray[np.int64], NDArray[Any], Limits]]:
        """Each of these parts with places of rows that lie in it, their local rows and limits."""
        for part in parts:
            at = asked.grouped.of(part, part + 1)
            if len(at):
                opened, limits = self._part(part), asked.limits
                yield opened, at, asked.rows[at] - asked.rows.dtype.type(opened.first), None if limits is None else limits[at]

    def _theirs(self, grouped: Grouped) -> dict[int, NDArray[np.int64]]:
        """Places of rows that lie with workers of other hosts."""
        places = self._places
        return {w: grouped.of(places.parts_of(w).start, places.parts_of(w).stop) for w in places.far}

    def _ask(self, theirs: dict[int, NDArray[np.int64]], rows: NDArray[Any], limits: Limits, calls: Calls) -> dict[int, _Asked]:
        """Tell others which rows are asked of them, and until when; what they ask for here."""
        team, far = self._places.team, self._places.far
        asked = team.ask(far, calls.next_tag(), {worker: rows[at] for worker, at in theirs.items()})
        wanted = {worker: found.astype(rows.dtype) for worker, found in asked.items()}
        if limits is None:
            return {worker: self._asked(found, None) for worker, found in wanted.items()}
        exact = limits.astype(np.int64 if limits.dtype.kind in "iub" else np.float64)  # eight bytes, sent as they are
        told = team.ask(far, calls.next_tag(), {worker: exact[at].view(np.int64) for worker, at in theirs.items()})
        return {worker: self._asked(found, told[worker].view(exact.dtype)) for worker, found in wanted.items()}

    def _joined(self, rows: int, found: Sequence[Piece]) -> Taken:
        if len(self._places.parts) == 1 and len(found) == 1:
            return found[0].taken  # in the order of rows: of several parts, even one worker's answer is not
        return stitch(rows, found, self._places.id_type, entries=self._entries)

    def _part(self, part: int) -> _Opened[Lists]:
        with self._lock:
            if part not in self._opened:
                shard = self._places.parts.shard(part)
                lists = self._make(source_of_shard(shard, self._columns))
                alone = len(self._places.parts) == 1
                ids = None if alone else global_ids(shard).astype(self._places.id_type)
                self._opened[part] = _Opened(lists, shard.first_global, ids, int(self._places.first_entry[part]))
            return self._opened[part]


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
