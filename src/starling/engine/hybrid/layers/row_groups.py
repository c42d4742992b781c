"""A layer's destinations in groups: those that read own rows alone, then those that wait for one more worker each time.

Attention, maxima, relations, LSTMs and Python gathers need all in-edges of a row at once, so they cannot be begun edge by edge as
sums can. But a group of rows is complete when the last worker that it reads from has sent: it is computed then, as a small graph of
its own (nn/excerpt.py), while messages for later groups fly. Parts have inner rows first, so that the first group is mostly one
stretch of rows, and nothing is copied for it. On a vertex-cut mirrors are a group of their own, before own rows that wait as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.engine.hybrid.messages.traffic import Traffic
from starling.kernels.adjacency import run_edges, run_edges_of
from starling.nn.excerpt import Excerpt, excerpt
from starling.nn.graph import LocalGraph

LEAST_ROWS = 2048
"""Of a group: with fewer a layer is computed whole, or a group waits with the next."""
LEAST_SHARE = 0.2
"""Of all rows, of a group between the first and the last: each copies the rows that it reads."""
LEAST_EARLY = 0.1
"""The share of rows that need not wait for the last message, below which a layer without a push is computed whole."""
LEAST_EDGES = 16
"""For each row that another group reads too: copying it must not cost what the edges do."""

OWN = -1
"""In place of a worker: own rows."""


@dataclass(frozen=True, eq=False)
class Stretch:
    """Rows `here` of a group's sources are rows `there` of what `worker` has sent, or of the own ones."""

    worker: int
    here: slice
    there: NDArray[np.int64]

    @cached_property
    def in_order(self) -> bool:
        """Whether these are the first rows there are, in their order."""
        return bool((self.there == np.arange(len(self.there))).all())


@dataclass(frozen=True, eq=False)
class RowGroup:
    """Destinations that are complete when all of `waits_for` have sent, earlier groups' workers included."""

    rows: NDArray[np.int64]
    piece: Excerpt
    waits_for: tuple[int, ...]
    stretches: tuple[Stretch, ...]
    pushed: bool = False
    """Whether these are mirrors, whose results go to their owners while the groups behind are computed."""

    @cached_property
    def reads_own_as_they_are(self) -> bool:
        """Whether its sources are the own rows in their order: then these are not copied."""
        piece = self.piece.sources
        return not self.waits_for and isinstance(piece, slice) and piece.start == 0


def row_groups(graph: LocalGraph, traffic: Traffic, senders: Sequence[int]) -> tuple[RowGroup, ...]:
    """The groups of a layer, for `senders` in the order in which they are waited for; none where they would not pay."""
    if not senders or graph.destinations < 2 * LEAST_ROWS:
        return ()
    turn = np.zeros(traffic.rows, np.int32)
    for place, worker in enumerate(senders):
        turn[traffic.mirrors_of(worker)] = place + 1
    lists = graph.adjacency
    waits = turn[: graph.destinations].copy()  # a mirror that is a destination is read as one
    run_edges(lists, 1, 1, _latest, turn, waits)
    deal = _dealt(waits, traffic.owned, len(senders))
    if deal is None:
        return ()
    members = [np.flatnonzero(deal.group_of == number) for number in range(len(deal.ends))]
    inner = deal.ends[0] == 0 and _are_first(members[0])  # its sources are the own rows: none need be looked for
    reads = np.zeros((len(members), traffic.rows), np.bool_)
    run_edges_of(lists, np.concatenate(members[inner:]), 1, 1, _mark_sources, deal.group_of, reads)
    found = []
    for number, (rows, end) in enumerate(zip(members, deal.ends, strict=True)):
        if inner and number == 0:
            sources = np.arange(traffic.owned)
        else:
            reads[number, rows] = False
            sources = np.concatenate([rows, np.flatnonzero(reads[number])])
        stretches = _stretches(sources, turn, traffic, senders)
        found.append(RowGroup(rows, excerpt(graph, rows, sources), tuple(senders[:end]), stretches, number == deal.pushed))
    repeated = sum(group.piece.graph.sources for group in found) - traffic.rows
    return tuple(found) if repeated * LEAST_EDGES <= graph.edges else ()


@dataclass(frozen=True, eq=False)
class _Deal:
    """The group of each destination; the turn that each group waits for; the group that is pushed, if any."""

    group_of: NDArray[np.int64]
    ends: list[int]
    pushed: int | None


def _dealt(waits: NDArray[np.int32], owned: int, senders: int) -> _Deal | None:
    """Destinations by the turn that each waits for; None where too few can be computed before the last message.

    Where both mirrors and own rows wait for it, mirrors are a group of their own before these: the push flies meanwhile, so that it
    pays however many wait.
    """
    ends = _group_ends(np.bincount(waits, minlength=senders + 1))
    group_of, last = np.searchsorted(ends, waits), len(ends) - 1
    late = group_of == last
    if min(np.count_nonzero(late[:owned]), np.count_nonzero(late[owned:])) >= LEAST_ROWS:
        group_of[owned:] = last
        group_of[:owned] += late[:owned]
        there = np.unique(group_of)  # mirrors may have been all of an earlier group
        return _Deal(np.searchsorted(there, group_of), [[*ends, ends[-1]][number] for number in there], len(there) - 2)
    early = len(waits) - np.count_nonzero(late)
    pays = early >= LEAST_EARLY * len(waits) and len(waits) - early >= LEAST_ROWS and len(ends) > 1
    return _Deal(group_of, ends, None) if pays else None


def _are_first(rows: NDArray[np.int64]) -> bool:
    return len(rows) > 0 and int(rows[-1]) == len(rows) - 1


def rows_follow_one_another(groups: Sequence[RowGroup]) -> bool:
    """Whether there are groups, each one stretch of rows."""
    return len(groups) > 0 and all(isinstance(group.piece.rows, slice) for group in groups)


def _group_ends(counts: NDArray[np.int64]) -> list[int]:
    """The last turn of each group, by the rows of each turn: those that wait for nobody, then small ones with the next."""
    last, least = len(counts) - 1, max(LEAST_ROWS, LEAST_SHARE * counts.sum())
    ends, rows = [0] if last and counts[0] >= LEAST_ROWS else [], 0
    for turn in range(1, last):
        rows += int(counts[turn])
        if rows >= least and counts[turn + 1 :].sum() >= least:
            ends.append(turn)
            rows = 0
    return [*ends, last]


def _stretches(
    sources: NDArray[np.int64], turn: NDArray[np.int32], traffic: Traffic, senders: Sequence[int]
) -> tuple[Stretch, ...]:
    """Runs of sources that come from one worker."""
    turns = turn[sources]
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(turns)) + 1, [len(turns)]])
    found = []
    for start, stop in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        if stop > start:
            worker = OWN if turns[start] == 0 else senders[turns[start] - 1]
            first = 0 if worker == OWN else traffic.mirrors_of(worker).start
            found.append(Stretch(worker, slice(start, stop), sources[start:stop] - first))
    return tuple(found)


@compiled
def _latest(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    neighbours: NDArray[np.int32],
    edges: NDArray[Any],
    turn: NDArray[np.int32],
    latest: NDArray[np.int32],
    start: int,
    stop: int,
) -> None:
    """Raise each row's turn to the latest of its neighbours'."""
    for item in range(start, stop):
        if end[item] - begin[item] > limit:
            continue
        row = owner[item] if len(owner) else item
        for k in range(begin[item], end[item]):
            latest[row] = max(latest[row], turn[neighbours[k]])


@compiled
def _mark_sources(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    neighbours: NDArray[np.int32],
    edges: NDArray[Any],
    group_of: NDArray[np.int64],
    reads: NDArray[np.bool_],
    start: int,
    stop: int,
) -> None:
    """Mark what each group's rows read."""
    for item in range(start, stop):
        if end[item] - begin[item] > limit:
            continue
        group = group_of[owner[item] if len(owner) else item]
        for k in range(begin[item], end[item]):
            reads[group, neighbours[k]] = True
