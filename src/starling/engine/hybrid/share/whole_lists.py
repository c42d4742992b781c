"""Whole neighbour lists out of a vertex-cut: every edge goes to the owner of its destination, once, when a run begins.

Sums, maxima and attention are joined from what each worker makes of its edges, and a vertex-cut stays as it is for them. Some
things want all in-edges of a node in one place: an LSTM, which reads them in order, a softmax within each relation, PyG's
convolutions, fan-outs and `--boundary`, which choose among them. For these the cut becomes the edge-cut of the same owners. An edge
that moves costs 24 bytes of messages, and each number in its tables 8 more; mirrors are then all neighbours of own rows that others
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from starling.comm.team import Team
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.traffic import Traffic, make_traffic
from starling.engine.hybrid.share.source import WorkerSource, weighted_degree_of, whole_exchange
from starling.engine.hybrid.share.worker_graph import Hearers, WorkerGraph, bounds_of_workers, part_of
from starling.kernels.csr import Csr


@dataclass(frozen=True, eq=False)
class Moves:
    """How edges got here: entries `sent[w]` of the lists `before` went to worker w, and entry i came `came[i]`-th, by worker."""

    before: WorkerGraph
    team: Team
    calls: Calls
    sent: Sequence[slice]
    came: NDArray[np.int64]

    def follow(self, values: NDArray[Any]) -> NDArray[Any]:
        """A value for each entry before → one for each entry now; all workers call it together."""
        given = [values[entries] for entries in self.sent]
        return np.concatenate(self.team.swap_rows(self.calls.next_tag(), given))[self.came]


@dataclass(frozen=True, eq=False)
class GatheredGraph(WorkerGraph):
    """A worker's graph that was a piece of a vertex-cut and now has whole lists of its own rows, and no others."""

    _: KW_ONLY
    moves: Moves
    hearers: tuple[Hearers, ...]

    def edge_column(self, name: str) -> NDArray[Any]:
        """An edge table, a row for each entry of `incoming`: it follows its edges, so all workers ask for it together."""
        values = self.moves.follow(self.moves.before.edge_column(name))
        return values if self.kept is None else values[self.kept]

    @property
    def heard_by(self) -> tuple[Hearers, ...]:
        """As those that hear have told."""
        return self.hearers


def with_whole_lists(source: WorkerSource) -> WorkerSource:
    """The same share with all in-edges of own rows; all workers call it together."""
    team, calls = source.team, source.calls
    graph = gather_lists(source.graph, team, calls)
    tables = {name: torch.from_numpy(graph.moves.follow(table.numpy())) for name, table in source.edge_tables.items()}
    degree = weighted_degree_of(graph, tables, whole_exchange(team, graph, calls))
    return replace(source, graph=graph, edge_tables=tables, weighted_degree=degree)


def gather_lists(graph: WorkerGraph, team: Team, calls: Calls) -> GatheredGraph:
    """The graph of one worker once everybody has sent everybody else's edges to them."""
    bounds = bounds_of_workers(graph.manifest, team.size)
    first, last = int(bounds[team.rank]), int(bounds[team.rank + 1])
    there = team.swap_lists(calls.next_tag(), graph.traffic.send)  # of the mirrors here: their rows where they are owned
    ids = np.concatenate([np.arange(first, last), *(start + rows for start, rows in zip(bounds[:-1], there, strict=True))])
    sent = _entries_by_owner(graph, team)
    destination, source, edge = _swapped_edges(graph, ids, sent, team, calls)
    row = destination - first
    came = np.lexsort((edge, row))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=graph.owned))])
    mirrors = np.unique(source[(source < first) | (source >= last)])
    outside = np.searchsorted(mirrors, bounds)
    wanted = [mirrors[outside[w] : outside[w + 1]] - bounds[w] for w in range(team.size)]
    send = team.swap_lists(calls.next_tag(), wanted)
    traffic = make_traffic(graph.owned, send, np.diff(outside).tolist())
    own = (source >= first) & (source < last)
    neighbours = np.where(own, source - first, graph.owned + np.searchsorted(mirrors, source)).astype(np.int32)[came]
    part = part_of(graph.manifest, np.concatenate([np.arange(first, last), mirrors]))

    def known(column: NDArray[Any]) -> NDArray[Any]:
        """What is known of own rows, of mirrors too."""
        return np.concatenate([column[: graph.owned], *team.swap_rows(calls.next_tag(), [column[rows] for rows in send])])

    incoming = Csr(offsets, neighbours, edge[came])
    return GatheredGraph(
        graph.manifest,
        graph.shards,
        incoming,
        known(graph.position),
        known(graph.in_degree),
        part,
        traffic,
        None if graph.looped is None else known(graph.looped),
        kept=None
        if graph.kept is None
        else np.arange(len(came)),  # nothing is left out of what came; of the graph something is
        moves=Moves(graph, team, calls, sent, came),
        hearers=_hearers(incoming, part, traffic, team, calls),
    )


def _entries_by_owner(graph: WorkerGraph, team: Team) -> list[slice]:
    """The stretch of entries whose destinations each worker owns: mirrors' lists lie by owner, behind the own ones."""
    offsets, found = graph.incoming.offsets, []
    for worker in range(team.size):
        rows = slice(0, graph.owned) if worker == team.rank else graph.traffic.mirrors_of(worker)
        found.append(slice(int(offsets[rows.start]), int(offsets[rows.stop])))
    return found


def _swapped_edges(
    graph: WorkerGraph, ids: NDArray[np.int64], sent: Sequence[slice], team: Team, calls: Calls
) -> NDArray[np.int64]:
    """Global ids of both ends, and the number, of all edges whose destinations are owned here, by the worker that had them."""
    lists = graph.incoming
    row = np.repeat(np.arange(lists.rows), np.diff(lists.offsets))
    given = [np.concatenate([ids[row[here]], ids[lists.neighbours[here]], lists.edge[here]]) for here in sent]
    return np.concatenate([edges.reshape(3, -1) for edges in team.swap_lists(calls.next_tag(), given)], axis=1)


def _hearers(lists: Csr, part: NDArray[np.int32], traffic: Traffic, team: Team, calls: Calls) -> tuple[Hearers, ...]:
    """Parts of other workers that hear of own rows, as each of them tells it: by the row's part, then theirs, then the row."""
    parts = int(part.max(initial=0)) + 1
    hearing = np.repeat(part[: traffic.owned], np.diff(lists.offsets))
    pairs = np.unique(lists.neighbours.astype(np.int64) * parts + hearing)  # a row and a part, each pair once
    row, hears = pairs // parts, pairs % parts
    told = []
    for worker in range(team.size):
        theirs = traffic.mirrors_of(worker)
        mine = np.flatnonzero((row >= theirs.start) & (row < theirs.stop))
        mine = mine[np.lexsort((row[mine], hears[mine], part[row[mine]]))]
        told.append(np.concatenate([row[mine] - theirs.start, hears[mine]]))
    heard = [pairs.reshape(2, -1) for pairs in team.swap_lists(calls.next_tag(), told)]
    return tuple((rows[place], by.astype(np.int32)) for rows, (place, by) in zip(traffic.send, heard, strict=True))
