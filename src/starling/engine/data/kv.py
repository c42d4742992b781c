"""The key-value store: rows of node and edge tables by id, wherever they are kept (DistDGLv2 §5.4).

    rows = store.pull("x", ids, calls)                     # in the order of ids
    store.push("embedding", ids, gradients, calls)         # summed per row at the owner; kind="edge" for rows of edges

Owners and rows follow from ranges of ids: there is a policy for all nodes and one for each node type, one for all edges and one for
each edge type (`store/policies.py`). A node belongs to the part whose range of global ids it is in, a row of an edge table to the
part that holds the entry, which is the destination's. Tables of one node type have the type's policy; `of_type` asks any table for
rows of one type, and refuses ids outside of the type's ranges. What lies on this host is read in place, through memory maps that
all workers of the host share. The rest is asked for in rounds (`rounds.py`), which all workers take in the same order; a team on
one host needs no message at all.

`begin_pull` sends the requests and returns at once, `Pending.serve` answers those of others, `Pending.rows` waits for theirs: so
the next batch's requests and answers are under way while this one's rows still travel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.engine.data.cache import StaticCache
from starling.engine.data.places import Places
from starling.engine.data.table_policies import TablePolicies
from starling.engine.data.tables import InPlaceTable, KeptTable, Kind, StoredTable, blank_rows, words_of
from starling.engine.hybrid.messages.calls import Calls
from starling.kernels.rows import add_rows, move_rows, scatter_rows
from starling.kernels.stitch import Grouped
from starling.store.policies import Placed, RangePolicy


class KeyValueStore:
    """A worker's end of the store. `resident` bounds the mapped pages of each table; None leaves that to the system."""

    def __init__(self, places: Places, *, resident: int | None = None) -> None:
        self.places, self._resident = places, resident
        self._in_place: dict[tuple[Kind, str], InPlaceTable] = {}
        self._kept: dict[tuple[Kind, str], KeptTable] = {}
        self._caches: dict[str, StaticCache] = {}
        self._policies = TablePolicies(places.parts.manifest)

    def add(self, name: str, table: InPlaceTable, *, kind: Kind = "node") -> None:
        """Add a table that is not in the files of the parts."""
        self._in_place[kind, name] = table

    def keep(self, name: str, table: KeptTable, *, kind: Kind = "node", of_type: str | None = None) -> None:
        """Add a table whose rows every worker keeps for its own nodes, or the entries of its own lists, the first being row 0.

        With `of_type` it has rows of this type's ranges alone.
        """
        self._kept[kind, name] = table
        self._policies.keep(kind, name, of_type)

    def use_cache(self, name: str, cache: StaticCache) -> None:
        """Take rows of other hosts from a cache where it has them. Only for tables that never change."""
        if ("node", name) in self._kept:
            raise ValueError(f"the rows of '{name}' change, so copies of them cannot be kept")
        self._caches[name] = cache

    def row_bytes(self, name: str) -> int:
        """What a row of a node table takes."""
        kept = self._kept.get(("node", name))
        table: KeptTable | InPlaceTable = self._table("node", name) if kept is None else kept
        return math.prod(table.row_shape) * table.dtype.itemsize

    def pull(
        self,
        name: str,
        ids: NDArray[Any],
        calls: Calls,
        *,
        kind: Kind = "node",
        of_type: str | None = None,
        counted: bool = True,
    ) -> NDArray[Any]:
        """Rows of a table in the order of `ids`, which may repeat; every worker calls, one without a wish with no ids.

        Rows of features are `counted` in the ledger; others would blur what a cache does.
        """
        return self.begin_pull(name, ids, calls, kind=kind, of_type=of_type, counted=counted).rows()

    def begin_pull(
        self,
        name: str,
        ids: NDArray[Any],
        calls: Calls,
        *,
        kind: Kind = "node",
        of_type: str | None = None,
        counted: bool = True,
        distinct: bool = False,
    ) -> Pending:
        """Send what this worker asks others for; the rows are to be had from the result.

        Each row is asked for once; where the ids are known to be `distinct`, that needs no sort.
        """
        ids = np.ascontiguousarray(ids)
        policy = self._policies.find(kind, name, of_type)
        placed = policy.place(ids, f"the {kind} table '{name}'")
        kept = self._kept.get((kind, name))
        peers = self.places.far if kept is None else self.places.team.peers
        cache = self._caches.get(name) if kind == "node" else None
        asked = {
            peer: _ask(ids, self._places_at(placed.by_part, peer), cache, once=kept is not None or not distinct)
            for peer in peers
        }
        tag, answers = (calls.next_tag(), calls.next_tag()) if peers else (0, 0)
        team = self.places.team
        hearing = team.links.ask_for_lists(list(asked), tag) if asked else dict[int, NDArray[np.int64]]
        for peer, question in asked.items():
            team.send_list(peer, tag, question.wanted)
        table = kept if kept is not None else self._table(kind, name)
        counted = counted and kind == "node" and name.partition("@")[0] == "x"
        return Pending(self.places, table, ids, policy, placed, asked, cache, hearing, answers, counted)

    def push(
        self,
        name: str,
        ids: NDArray[Any],
        values: NDArray[Any],
        calls: Calls,
        *,
        kind: Kind = "node",
        of_type: str | None = None,
    ) -> None:
        """Add values to rows of a kept table at their owners; what comes for one row is summed first, in the order of ranks.

        An owner takes in the sums once, when everybody's have come: `KeptTable.add` says what that means.
        """
        if (kind, name) not in self._kept:
            known = [name for of_kind, name in self._kept if of_kind == kind]
            raise ValueError(f"only rows that workers keep themselves can be pushed to, and '{name}' is not one of {known}")
        self.begin_pull(name, ids, calls, kind=kind, of_type=of_type).push(values, calls)

    def _table(self, kind: Kind, name: str) -> InPlaceTable:
        if (kind, name) not in self._in_place:
            self._in_place[kind, name] = StoredTable(self.places.parts, kind, name, resident=self._resident)
        return self._in_place[kind, name]

    def _places_at(self, by_part: Grouped, worker: int) -> NDArray[np.int64]:
        theirs = self.places.parts_of(worker)
        return by_part.of(theirs.start, theirs.stop)


@dataclass(frozen=True, eq=False)
class _Question:
    """What is asked of one worker: `wanted` ids; the row of wanted[answer_of[k]] belongs at places[k].

    `answer_of` is None where ids are asked for in the order of their places. Rows at `cached_places` are rows `cached_rows` of the
    cache.
    """

    wanted: NDArray[Any]
    places: NDArray[np.int64]
    answer_of: NDArray[np.int64] | None
    cached_places: NDArray[np.int64]
    cached_rows: NDArray[np.int64]


def _ask(ids: NDArray[Any], places: NDArray[np.int64], cache: StaticCache | None, *, once: bool) -> _Question:
    """`once`: ids may repeat and are asked for once each, in order, as owners need them to add up what comes back."""
    cached_places, cached_rows = places[:0], places[:0]
    if cache is not None:
        row = cache.find(ids[places])
        known = row >= 0
        cached_places, cached_rows, places = places[known], row[known], places[~known]
    wanted, answer_of = np.unique(ids[places], return_inverse=True) if once else (ids[places], None)
    return _Question(wanted, places, answer_of, cached_places, cached_rows)


@dataclass(eq=False)
class Pending:
    """A pull under way: its requests are sent. Every worker serves its pulls in the same order; then rows may be read in any."""

    _places: Places
    _table: KeptTable | InPlaceTable
    _ids: NDArray[Any]
    _policy: RangePolicy
    _placed: Placed
    _asked: dict[int, _Question]
    _cache: StaticCache | None
    _hearing: Callable[[], dict[int, NDArray[np.int64]]]
    """Waits for what each worker asks for here."""
    _answers: int
    _counted: bool
    _heard: dict[int, NDArray[np.int64]] | None = None
    _served: _Served | None = None

    @property
    def nbytes(self) -> int:
        """What its rows take, those that come from others twice: as they come, and where they belong."""
        far = sum(len(question.wanted) for question in self._asked.values())
        return (len(self._ids) + far) * math.prod(self._table.row_shape) * self._table.dtype.itemsize

    def serve(self) -> None:
        """Answer what others ask for, then read the rows at hand; all that is left for `rows` is to wait for others' answers."""
        if self._served is not None:
            return
        out = blank_rows(len(self._ids), self._table.row_shape, self._table.dtype)
        words = words_of(out)
        row_bytes = words.shape[1] * words.itemsize
        shapes = {peer: (len(asked.wanted), row_bytes) for peer, asked in self._asked.items() if len(asked.wanted)}
        self._served = _Served(out, words, self._places.team.receive_each(self._answers, shapes, torch.uint8))
        self._answer()
        near, cached, far = self._read_here(words), 0, sum(rows for rows, _ in shapes.values())
        if self._cache is not None:
            for question in self._asked.values():
                move_rows(self._cache.words, question.cached_rows, words, question.cached_places)
                cached += len(question.cached_rows)
        if self._counted:
            self._places.team.ledger.fetched(near=near, cached=cached, far=far, far_bytes=far * row_bytes)

    def rows(self) -> NDArray[Any]:
        """The rows, when others' answers have come."""
        self.serve()
        assert self._served is not None
        for peer, came in self._served.coming:
            question, rows, words = self._asked[peer], came.numpy().view(self._served.words.dtype), self._served.words
            if question.answer_of is None:
                scatter_rows(rows, question.places, words)
            else:
                move_rows(rows, question.answer_of, words, question.places)
        return self._served.out

    def push(self, values: NDArray[Any], calls: Calls) -> None:
        """Give back values for the rows that were asked for, in the order of the ids; owners add them up (`KeyValueStore.push`)."""
        table, team = self._table, self._places.team
        assert not isinstance(table, InPlaceTable), "rows that lie in place are never written to"
        values = np.ascontiguousarray(values, table.dtype).reshape(len(self._ids), math.prod(table.row_shape))
        tag = calls.next_tag() if self._asked else 0
        heard = self.hear()
        shapes = {worker: (len(ids), values.shape[1]) for worker, ids in sorted(heard.items()) if len(ids)}
        coming = team.receive_each(tag, shapes, torch.from_numpy(values[:0]).dtype)
        for peer, question in self._asked.items():
            if len(question.wanted):
                assert question.answer_of is not None, "asked for once each"
                parcel = team.links.parcel(peer, (len(question.wanted), values.shape[1]), torch.from_numpy(values[:0]).dtype)
                parcel.numpy()[...] = _summed(values, question.places, question.answer_of, len(question.wanted))
                team.ledger.sent(peer, parcel.nbytes)
                team.links.send(peer, tag, parcel)
        meeting = self._meeting
        total = np.zeros((len(meeting.rows), values.shape[1]), values.dtype)
        for worker in range(team.size):
            if worker == team.rank:
                mine, answer_of = self._own_places(), meeting.own_answer_of
                add_rows(_summed(values, mine, answer_of, len(meeting.places[worker])), meeting.places[worker], total)
            elif worker in shapes:
                add_rows(next(coming)[1].numpy(), meeting.places[worker], total)
        table.add(self._kept_rows(meeting.rows), total.reshape(len(total), *table.row_shape))

    def _read_here(self, words: NDArray[Any]) -> int:
        """Rows that need no message."""
        if not isinstance(self._table, InPlaceTable):
            mine = self._own_places()
            here = self._table.rows(self._kept_rows(self._ids[mine]))
            scatter_rows(words_of(here), mine, words)
            return len(mine)
        count = 0
        for part in self._places.here:
            mine = self._placed.by_part.of(part, part + 1)
            self._table.move(part, self._placed.rows[mine], words, mine)
            count += len(mine)
        return count

    @cached_property
    def _meeting(self) -> _Meeting:
        own, answer_of = np.unique(self._ids[self._own_places()], return_inverse=True)
        by_worker = {**self.hear(), self._places.team.rank: own}
        rows = np.unique(np.concatenate(list(by_worker.values())))
        return _Meeting(rows, answer_of, {worker: np.searchsorted(rows, ids) for worker, ids in by_worker.items()})

    def _kept_rows(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Rows of own ids, the first that this worker keeps being row 0."""
        own: NDArray[np.int64] = self._policy.numbers(ids) - self._policy.rows_before[self._places.own.start]
        return own

    def _own_places(self) -> NDArray[np.int64]:
        return self._placed.by_part.of(self._places.own.start, self._places.own.stop)

    def hear(self) -> dict[int, NDArray[np.int64]]:
        """Receive what everybody asks for, once; waits until they have begun the same pull."""
        if self._heard is None:
            self._heard = self._hearing()
            if not isinstance(self._table, InPlaceTable):
                _ = self._meeting  # made here, ahead of the push that it is for
        return self._heard

    def _answer(self) -> None:
        """Send everybody the rows they ask for, each row's bytes, gathered straight into the message."""
        team = self._places.team
        for peer, wanted in self.hear().items():
            if len(wanted) == 0:
                continue
            width = words_of(blank_rows(1, self._table.row_shape, self._table.dtype)).view(np.uint8).shape[1]
            parcel = team.links.parcel(peer, (len(wanted), width), torch.uint8)
            with team.ledger.time("communication"):
                self._gather(wanted, parcel.numpy())
            team.ledger.sent(peer, parcel.nbytes)
            team.links.send(peer, self._answers, parcel)

    def _gather(self, wanted: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        """Own rows by id, as bytes."""
        table = self._table
        if not isinstance(table, InPlaceTable):
            out[...] = words_of(table.rows(self._kept_rows(wanted))).view(np.uint8)
            return
        words = out.view(np.uint32 if out.shape[1] % 4 == 0 else np.uint8)
        placed = self._policy.place(wanted)
        for part in self._places.own:
            places = placed.by_part.of(part, part + 1)
            table.move(part, placed.rows[places], words, places)


@dataclass(frozen=True, eq=False)
class _Served:
    """The rows of a pull as far as they are at hand, the same as words, and the answers that are still to come."""

    out: NDArray[Any]
    words: NDArray[Any]
    coming: Iterator[tuple[int, Tensor]]


@dataclass(frozen=True, eq=False)
class _Meeting:
    """Own rows that anybody has asked for, ascending, and where each worker's are among them."""

    rows: NDArray[Any]
    own_answer_of: NDArray[np.int64]
    places: dict[int, NDArray[np.int64]]


def _summed(values: NDArray[Any], places: NDArray[np.int64], answer_of: NDArray[np.int64], count: int) -> NDArray[Any]:
    """The values at `places`, those of one row added up in their order."""
    if count == len(places):  # each named once
        total = np.empty((count, values.shape[1]), values.dtype)
        move_rows(values, places, total, answer_of)
        return total
    total = np.zeros((count, values.shape[1]), values.dtype)
    np.add.at(total, answer_of, values[places])
    return total
