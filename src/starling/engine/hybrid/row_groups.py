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
from starling.engine.hybrid.traffic import Traffic
from starling.kernels.adjacency import run_edges
from starling.nn.excerpt import Excerpt, excerpt
from starling.nn.graph import LocalGraph

LEAST_ROWS = 2048
"""Of a group: with fewer a layer is computed whole, or a group waits with the next."""
LEAST_SHARE = 0.2
"""Of all rows, of a group between the first and the last: each copies the rows that it reads."""
LEAST_EARLY = 0.1
"""The share of rows that need not wait for the last message, below which a layer is computed whole."""
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
    """The groups of a layer, for `senders` in the order in which they are waited for; one or none where that would not pay."""
    if not senders or graph.destinations < 2 * LEAST_ROWS:
        return ()
    turn = np.zeros(traffic.rows, np.int32)
    for place, worker in enumerate(senders):
        turn[traffic.mirrors_of(worker)] = place + 1
    lists = graph.adjacency
    waits = turn[: graph.destinations].copy()  # a mirror that is a destination is read as one
    run_edges(lists, 1, 1, _latest, turn, waits)
    ends = _group_ends(np.bincount(waits, minlength=len(senders) + 1))
    group_of, pushed, found = np.searchsorted(ends, waits), -1, []
    late = group_of == len(ends) - 1
    pays = LEAST_ROWS <= late.sum() <= (1 - LEAST_EARLY) * len(waits) and len(ends) > 1
    if min(late[: traffic.owned].sum(), late[traffic.owned :].sum()) >= max(LEAST_ROWS, 1):  # a push, and rows behind it
        pushed, pays = len(ends) - 1, True
        group_of[: traffic.owned] += late[: traffic.owned]
        group_of[traffic.owned :] = pushed
        ends.append(ends[-1])
    if not pays:
        return ()
    reads = np.zeros((len(ends), traffic.rows), np.bool_)
    run_edges(lists, 1, 1, _mark_sources, group_of, reads)
    for number, end in enumerate(ends):
        rows = np.flatnonzero(group_of == number)
        if end == 0 and len(rows) and rows[-1] == len(rows) - 1:
            sources = np.arange(traffic.owned)
        else:
            reads[number, rows] = False
            sources = np.concatenate([rows, np.flatnonzero(reads[number])])
        stretches = _stretches(sources, turn, traffic, senders)
        found.append(RowGroup(rows, excerpt(graph, rows, sources), tuple(senders[:end]), stretches, number == pushed))
    repeated = sum(group.piece.graph.sources for group in found) - traffic.rows
    return tuple(found) if repeated * LEAST_EDGES <= graph.edges else ()


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
