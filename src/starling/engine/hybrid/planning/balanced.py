"""Balanced workers (CM-GCN §III-B): a batch's nodes are computed not by their owners but by a map that gives every worker as much.

Cohesive batches are fixed, and near in the graph, so a batch often lies with one worker while the others wait. For each batch,
once: its nodes are ranked breadth-first from the targets, and each goes to the worker with the least cost so far (nc(v), over the
layers in which the batch computes it), or to its owner where that is no more than a little ahead. Whoever computes a node gets its
in-list and tables from the owner. What comes out is a graph of the batch, cut by that map, of the same kind as the worker's own
graph: the search, the exchange and the layers do not know the difference, and results are those of one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.team import Team
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.traffic import make_traffic
from starling.engine.hybrid.planning.active import ActiveSet
from starling.engine.hybrid.share.worker_graph import WorkerGraph
from starling.kernels.csr import Csr
from starling.kernels.frontier import FrontierPool
from starling.kernels.least_loaded import to_least_loaded
from starling.kernels.sampling import take_all
from starling.plan.cost import GcnCost

_SLACK = 0.02
"""How far the owner may be ahead of the least loaded worker and still get a node, as a share of a worker's mean load."""


@dataclass(frozen=True, eq=False)
class BatchShare:
    """One worker's share of one batch: its graph, whose own rows are the nodes computed here and features held for others.

    `targets` are own rows. `entries` are the places of the graph's edges among the owner's, by owner (edge tables are asked for by
    them). `load` is what each worker has to compute, in the cost model's seconds.
    """

    graph: WorkerGraph
    targets: NDArray[np.int64]
    entries: tuple[NDArray[np.int64], ...]
    load: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Reached:
    """All nodes that a batch reads, over all workers, breadth-first: position, holder, distance from the targets, in-degree.

    `looped` is one for nodes with self-loops, zero for others; None where no node of the graph has one.
    """

    position: NDArray[np.int64]
    holder: NDArray[np.int64]
    distance: NDArray[np.int64]
    degree: NDArray[np.int64]
    looped: NDArray[np.int64] | None


class BatchCutter:
    """Cuts batches for a team; every worker makes the same calls."""

    def __init__(self, graph: WorkerGraph, team: Team, layers: int, cost: GcnCost, calls: Calls) -> None:
        self._graph, self._team, self._layers, self._cost, self._calls = graph, team, layers, cost, calls
        self._pool = FrontierPool(graph.rows)
        owned = graph.position[: graph.owned]
        self._order = np.argsort(owned)
        self._sorted = owned[self._order]

    def cut(self, number: int, targets: NDArray[np.int64]) -> BatchShare:
        """The share of a batch; `targets` are own rows by ownership, `number` tags the search's messages."""
        reached = self._reach(number, targets)
        worker, load = self._workers_of(reached)
        computed = reached.distance < self._layers
        mine = worker == self._team.rank
        own = np.concatenate([np.sort(reached.position[mine & computed]), np.sort(reached.position[mine & ~computed])])
        lists, entries = self._fetch_lists(reached, worker, int((mine & computed).sum()), len(own))
        place = _Places(reached.position, worker)
        mirrors = np.setdiff1d(lists.neighbours, own)
        theirs = place.of(mirrors)
        order = np.lexsort((mirrors, theirs))
        mirrors, counts = mirrors[order], np.bincount(theirs, minlength=self._team.size)
        rows = _Places(np.concatenate([own, mirrors]), np.arange(len(own) + len(mirrors)))
        asked = self._swap(np.split(mirrors, np.cumsum(counts)[:-1]))
        traffic = make_traffic(len(own), [rows.of(positions) for positions in asked], counts.tolist())
        position = np.concatenate([own, mirrors])
        graph = WorkerGraph(
            self._graph.manifest,
            self._graph.shards,
            Csr(lists.offsets, rows.of(lists.neighbours).astype(np.int32), lists.edge),
            position,
            _Places(reached.position, reached.degree).of(position),
            np.zeros(len(position), np.int32),
            traffic,
            None if reached.looped is None else _Places(reached.position, reached.looped).of(position) > 0,
        )
        first = reached.position[mine & (reached.distance == 0)]
        return BatchShare(graph, rows.of(np.sort(first)), entries, load)

    def _reach(self, number: int, targets: NDArray[np.int64]) -> _Reached:
        """Search outwards from the targets, by owners, and tell everybody what was reached."""
        graph = self._graph
        active, own, distance = ActiveSet(graph, self._team, self._pool, number), targets, np.zeros(len(targets), np.int64)
        for hop in range(self._layers):
            _, own = active.expand(own, lambda rows: take_all(graph.incoming, rows))
            distance = np.concatenate([distance, np.full(len(own) - len(distance), hop + 1)])
        facts = [graph.position[own], distance, graph.in_degree[own], *([] if graph.looped is None else [graph.looped[own]])]
        told = [self._everywhere(values) for values in facts]
        holder = np.repeat(np.arange(self._team.size), [len(part) for part in told[0]])
        position, far, degree, *looped = (np.concatenate(parts) for parts in told)
        order = np.lexsort((position, far))
        return _Reached(position[order], holder[order], far[order], degree[order], looped[0][order] if looped else None)

    def _workers_of(self, reached: _Reached) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Who computes each node; one that is only read stays with its holder."""
        computed, worker = reached.distance < self._layers, reached.holder.copy()
        cost = self._cost.by_distance(reached.degree[computed])[reached.distance[computed], np.arange(int(computed.sum()))]
        slack = _SLACK * float(cost.sum()) / self._team.size
        worker[computed] = to_least_loaded(cost, reached.holder[computed], self._team.size, slack)
        return worker, np.bincount(worker[computed], cost, minlength=self._team.size).astype(np.float64)

    def _fetch_lists(
        self, reached: _Reached, worker: NDArray[np.int64], computed: int, rows: int
    ) -> tuple[Csr, tuple[NDArray[np.int64], ...]]:
        """In-lists, of positions, of the nodes computed here, then empty ones; `edge` are numbers of entries as they came."""
        lists, rank = self._graph.incoming, self._team.rank
        moves = reached.distance < self._layers
        sent: list[list[NDArray[np.int64]]] = [[], [], [], []]
        for peer in range(self._team.size):
            nodes = reached.position[moves & (reached.holder == rank) & (worker == peer)]
            taken = take_all(lists, self._order[np.searchsorted(self._sorted, nodes)])
            for column, values in zip(
                sent, (nodes, np.diff(taken.offsets), self._graph.position[taken.neighbours], taken.entry), strict=True
            ):
                column.append(np.asarray(values, np.int64))
        nodes, lengths, neighbours, entries = (self._swap(column) for column in sent)
        node, length = np.concatenate(nodes), np.concatenate(lengths)
        start = np.concatenate([[0], np.cumsum(length)])[:-1]
        order = np.argsort(node)
        assert len(order) == computed, "every node that is computed here came with its list"
        offsets = np.concatenate([[0], np.cumsum(length[order]), np.full(rows - computed, length.sum())]).astype(np.int64)
        spread = np.repeat(start[order] - offsets[:computed], length[order]) + np.arange(int(length.sum()))
        return Csr(offsets, np.concatenate(neighbours)[spread], spread), tuple(entries)

    def _swap(self, lists: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        return self._team.swap_lists(self._calls.next_tag(), lists)

    def _everywhere(self, values: NDArray[Any]) -> list[NDArray[np.int64]]:
        return self._team.all_lists(self._calls.next_tag(), np.asarray(values, np.int64))


class _Places:
    """What is known of nodes, found by their positions."""

    def __init__(self, positions: NDArray[np.int64], values: NDArray[np.int64]) -> None:
        order = np.argsort(positions)
        self._positions, self._values = positions[order], values[order]

    def of(self, positions: NDArray[Any]) -> NDArray[np.int64]:
        """The values of these nodes, all of them known."""
        return self._values[np.searchsorted(self._positions, positions)]
