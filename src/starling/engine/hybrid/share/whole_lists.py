"""Whole neighbour lists out of a vertex-cut: every edge goes to the owner of its destination, once, when a run begins.

Sums, maxima and attention are joined from what each worker makes of its edges, and a vertex-cut stays as it is for them. Some
things want all in-edges of a node in one place: an LSTM, which reads them in order, a softmax within each relation, PyG's
convolutions, fan-outs and `--boundary`, which choose among them. For these the cut becomes the edge-cut of the same owners. An edge
that moves costs 24 bytes of messages, and each number in its tables 8 more; mirrors are then all neighbours of own rows that others
own. What stays beside the lists is 4 bytes an edge, by which further tables could follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from starling.comm.team import Team
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.traffic import Traffic, make_traffic
from starling.engine.hybrid.share.source import WorkerSource, weighted_degree_of, whole_exchange
from starling.engine.hybrid.share.worker_graph import WorkerGraph, bounds_of_workers, hearers_of, part_of
from starling.kernels.csr import Csr, index_type

AT_ONCE = 1 << 21
"""Edges that a worker sends to another in one message: 24 bytes each on either side while it is under way."""


@dataclass(frozen=True, eq=False)
class Moves:
    """How edges got here: entries `sent[w]` of the lists before went to worker w, and entry i came `came[i]`-th, by worker."""

    team: Team
    calls: Calls
    sent: Sequence[slice]
    came: NDArray[Any]

    def follow(self, values: NDArray[Any]) -> NDArray[Any]:
        """A value for each entry before → one for each entry now; all workers call it together."""
        given = [values[entries] for entries in self.sent]
        there = np.concatenate(self.team.swap_rows(self.calls.next_tag(), given))
        found: NDArray[Any] = there[self.came]
        return found


def with_whole_lists(source: WorkerSource) -> WorkerSource:
    """The same share with all in-edges of own rows; all workers call it together."""
    team, calls = source.team, source.calls
    graph, moves = gather_lists(source.graph, team, calls)
    tables = {name: torch.from_numpy(moves.follow(table.numpy())) for name, table in source.edge_tables.items()}
    degree = weighted_degree_of(graph, tables, whole_exchange(team, graph, calls))
    return replace(source, graph=graph, edge_tables=tables, weighted_degree=degree)


def gather_lists(graph: WorkerGraph, team: Team, calls: Calls) -> tuple[WorkerGraph, Moves]:
    """The graph of one worker once everybody has sent everybody else's edges to them, and how these got here."""
    bounds = bounds_of_workers(graph.manifest, team.size)
    first, last = int(bounds[team.rank]), int(bounds[team.rank + 1])
    sent = _entries_by_owner(graph, team)
    destination, source, edge = _swapped_edges(graph, bounds, sent, team, calls)
    row = destination - destination.dtype.type(first)
    came = np.lexsort((edge, row)).astype(index_type(len(row)))
    own = (source >= first) & (source < last)
    mirrors = np.unique(source[~own]).astype(np.int64)
    neighbours = np.where(own, source - first, graph.owned + np.searchsorted(mirrors, source)).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=graph.owned))])
    incoming = Csr(offsets, neighbours[came], edge[came])
    traffic = _traffic_of(mirrors, graph.owned, bounds, team, calls)
    part = part_of(graph.manifest, np.concatenate([np.arange(first, last), mirrors]))
    moves, stored = Moves(team, calls, sent, came), graph.stored_columns

    def known(column: NDArray[Any]) -> NDArray[Any]:
        """What is known of own rows, of mirrors too."""
        return np.concatenate(
            [column[: graph.owned], *team.swap_rows(calls.next_tag(), [column[rows] for rows in traffic.send])]
        )

    whole = WorkerGraph(
        graph.manifest,
        graph.shards,
        incoming,
        known(graph.position),
        known(graph.in_degree),
        part,
        traffic,
        None if graph.looped is None else known(graph.looped),
        kept=None if graph.kept is None else np.arange(len(came)),  # all that came, of a graph of which some edges did not
        columns=lambda name: moves.follow(stored(name)),
        hearers=hearers_of(incoming, part, traffic, partial(team.swap_lists, calls.next_tag())),
    )
    return whole, moves


def _entries_by_owner(graph: WorkerGraph, team: Team) -> list[slice]:
    """The stretch of entries whose destinations each worker owns: mirrors' lists lie by owner, behind the own ones."""
    offsets, found = graph.incoming.offsets, []
    for worker in range(team.size):
        rows = slice(0, graph.owned) if worker == team.rank else graph.traffic.mirrors_of(worker)
        found.append(slice(int(offsets[rows.start]), int(offsets[rows.stop])))
    return found


def _traffic_of(mirrors: NDArray[np.int64], owned: int, bounds: NDArray[np.int64], team: Team, calls: Calls) -> Traffic:
    """Everybody asks the owners for its mirrors, by ascending global id."""
    outside = np.searchsorted(mirrors, bounds)
    wanted = [mirrors[outside[worker] : outside[worker + 1]] - bounds[worker] for worker in range(team.size)]
    return make_traffic(owned, team.swap_lists(calls.next_tag(), wanted), np.diff(outside).tolist())


def _swapped_edges(
    graph: WorkerGraph, bounds: NDArray[np.int64], sent: Sequence[slice], team: Team, calls: Calls
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Global ids of both ends, and the number, of all edges whose destinations are owned here, by the worker that had them."""
    there = team.swap_lists(calls.next_tag(), graph.traffic.send)  # of the mirrors here: their rows where they are owned
    mine = np.arange(bounds[team.rank], bounds[team.rank + 1])
    ids = np.concatenate([mine, *(start + rows for start, rows in zip(bounds[:-1], there, strict=True))])
    lists, kind, numbers = graph.incoming, index_type(graph.manifest.nodes), index_type(graph.manifest.edges)

    def of(entries: slice) -> list[NDArray[Any]]:
        destination = np.searchsorted(lists.offsets, np.arange(entries.start, entries.stop), side="right") - 1
        source = lists.neighbours[entries]
        return [ids[destination].astype(kind), ids[source].astype(kind), lists.edge[entries].astype(numbers)]

    came = [[of(entries)] if worker == team.rank else [] for worker, entries in enumerate(sent)]
    longest = max((entries.stop - entries.start for worker, entries in enumerate(sent) if worker != team.rank), default=0)
    turns = max(int(told[0]) for told in team.all_lists(calls.next_tag(), np.array([-(-longest // AT_ONCE)])))
    for turn in range(turns):
        begins = [min(entries.start + turn * AT_ONCE, entries.stop) for entries in sent]
        pieces = [slice(begin, min(begin + AT_ONCE, entries.stop)) for begin, entries in zip(begins, sent, strict=True)]
        given = [np.concatenate(of(piece if peer != team.rank else slice(0, 0))) for peer, piece in enumerate(pieces)]
        for peer, edges in enumerate(team.swap_lists(calls.next_tag(), given)):
            destination, source, edge = edges.reshape(3, -1)
            came[peer].append([destination.astype(kind), source.astype(kind), edge.astype(numbers)])
    columns = zip(*(piece for pieces in came for piece in pieces), strict=True)
    destination, source, edge = (np.concatenate(column) for column in columns)
    return destination, source, edge
