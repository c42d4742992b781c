"""Breadth-first search by a team: from the rows that one layer gives to the rows it needs, here and at everybody else's.

Each worker looks only at in-edges it holds. Rows it needs of others it asks them for, by their place in the list of rows that are
mirrored here, which both sides have; owners compute these rows too, one layer further out. In a vertex-cut owners first say which
rows are being computed, since in-edges of these lie elsewhere as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.engine.hybrid.layers.edges import LayerEdges, ListedEdges
from starling.engine.hybrid.layers.plan import ActiveRows, WorkerLayer, listed_layer
from starling.engine.hybrid.messages.traffic import make_traffic
from starling.engine.hybrid.planning.mapped_edges import MappedEdges, worth_reading_in_place
from starling.engine.hybrid.planning.taken_edges import TakenEdges, worth_a_map
from starling.engine.hybrid.share.worker_graph import WorkerGraph
from starling.kernels.frontier import FrontierPool
from starling.kernels.sampling import Taken, take_all
from starling.plan.batch import Block

Take = Callable[[NDArray[Any]], Taken]
"""In-edges of some of the worker's rows."""


class ActiveSet:
    """The search of one step, layer by layer from the targets outwards; every worker makes the same calls."""

    def __init__(self, graph: WorkerGraph, team: Team, pool: FrontierPool, number: int) -> None:
        self._graph, self._team, self._pool, self._number, self._call = graph, team, pool, number, 0

    def expand(
        self, own: NDArray[Any], take: Take, wanted: Sequence[NDArray[Any]] | None = None, *, in_place: bool = False
    ) -> tuple[WorkerLayer, NDArray[Any]]:
        """The layer that gives the rows `own`, and the own rows it reads: `own` first, then the others.

        `wanted` are own rows that each worker needs, ascending, where that is known without a word; else workers ask one another.
        With `in_place` what was taken is read where the graph's lists lie, if that pays and these have whole rows.
        """
        given = self._given(own)
        taken = take(given)
        with self._pool.frontier(given) as frontier:
            places = frontier.extend(taken.neighbours)
            found = frontier.rows.copy()
        active = self._ask(own, found, wanted)
        if in_place and not self._graph.spread and worth_a_map(self._graph, len(taken.entry)):
            edges = TakenEdges(self._graph.adjacency, taken, self._place_of(active.rows), active.traffic)
            return WorkerLayer(edges, active.rows, len(own), active.traffic), active.reads
        offsets, row_scale = taken.offsets, taken.row_scale
        if self._graph.spread:  # a list for every row, empty for those nobody computes here
            offsets, row_scale = _for_all_rows(taken, active.number[: len(given)], len(active.rows))
        block = Block(offsets, active.number[places], taken.entry, len(active.rows), row_scale, taken.edge_scale)
        return listed_layer(block, active.rows, len(own), active.traffic), active.reads

    def outwards(
        self, own: NDArray[Any], takes: Sequence[Take | None], *, in_place: bool = False
    ) -> tuple[tuple[WorkerLayer, ...], NDArray[Any]]:
        """A layer for each way to take in-edges, the last layer's first; they come outermost first, with the own rows they read.

        None takes all neighbours, and reads their lists where they lie; with `in_place` so it is with what others take.
        """
        layers: list[WorkerLayer] = []
        for take in takes:
            layer, own = self.expand_whole(own) if take is None else self.expand(own, take, in_place=in_place)
            layers.append(layer)
        return tuple(reversed(layers)), own

    def expand_whole(self, own: NDArray[Any]) -> tuple[WorkerLayer, NDArray[Any]]:
        """`expand` with all neighbours, whose lists are read where they lie."""
        lists, given = self._graph.incoming, self._given(own)
        with self._pool.frontier(given) as frontier:
            edges = frontier.extend_from(lists, given)
            found = frontier.rows
        active = self._ask(own, found, None)
        place = self._place_of(active.rows)

        def listed() -> Block:
            taken, count = take_all(lists, given), len(active.rows)
            offsets = _for_all_rows(taken, place[given], count)[0] if self._graph.spread else taken.offsets
            return Block(offsets, place[taken.neighbours], taken.entry, count)

        if worth_reading_in_place(self._graph, active, edges):
            read: LayerEdges = MappedEdges(self._graph, given, active, place, edges, listed)
        else:
            read = ListedEdges(listed(), active.traffic)
        return WorkerLayer(read, active.rows, len(own), active.traffic), active.reads

    def _place_of(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """The map from the graph's rows to these; below zero for all others."""
        place = np.full(self._graph.rows, -1, np.int32)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        return place

    def _given(self, own: NDArray[Any]) -> NDArray[Any]:
        """Rows that a layer gives of which in-edges are here: its own ones, and on a vertex-cut others' that are mirrored here."""
        return np.concatenate([own, self.announce(own).mirrors]) if self._graph.spread else own

    def _ask(self, own: NDArray[Any], found: NDArray[Any], wanted: Sequence[NDArray[Any]] | None) -> ActiveRows:
        """From the rows that a layer gives and those `found` to be read for it, the own ones first, to all that move for it."""
        full, size = self._graph.traffic, self._team.size
        is_mirror = found >= full.owned
        mirrors = np.sort(found[is_mirror])
        bounds = np.searchsorted(mirrors, full.owned + np.array(full.mirror_offsets))
        if wanted is None:
            asked = [mirrors[bounds[w] : bounds[w + 1]] - full.mirrors_of(w).start for w in range(size)]
            wanted = [full.send[w][indices] for w, indices in enumerate(self._swap(asked))]
        with self._pool.frontier(own) as frontier:
            number = np.empty(len(found), np.int32)
            number[~is_mirror] = frontier.extend(found[~is_mirror])
            send = [frontier.extend(rows) for rows in wanted]
            reads = frontier.rows.astype(own.dtype)
        number[is_mirror] = len(reads) + np.searchsorted(mirrors, found[is_mirror])
        return ActiveRows(reads, mirrors, number, make_traffic(len(reads), send, np.diff(bounds).tolist()))

    def announce(self, own: NDArray[Any]) -> Announced:
        """Tell everybody which of the rows they mirror are among `own`, and hear the same of theirs."""
        full = self._graph.traffic
        with self._pool.frontier(own) as frontier:
            place = [frontier.places[rows] for rows in full.send]
        heard = self._swap([np.flatnonzero(places >= 0) for places in place])
        heard[self._team.rank] = heard[self._team.rank][:0]
        mirrors = [full.mirrors_of(w).start + indices for w, indices in enumerate(heard)]
        return Announced(
            np.concatenate(mirrors).astype(own.dtype),
            [len(part) for part in mirrors],
            [places[places >= 0] for places in place],
        )

    def totals(self, announced: Announced, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts of own rows and of announced mirrors → for each of these rows, the total over all workers."""
        own = len(counts) - len(announced.mirrors)
        pieces = np.split(counts[own:], np.cumsum(announced.mirror_counts)[:-1])
        total = counts.copy()
        for worker, theirs in enumerate(self._swap(pieces)):
            if worker != self._team.rank:
                total[announced.told[worker]] += theirs
        answers = self._swap([total[places] for places in announced.told])
        answers[self._team.rank] = answers[self._team.rank][:0]
        total[own:] = np.concatenate(answers)
        return total

    def _swap(self, lists: list[NDArray[Any]]) -> list[NDArray[np.int64]]:
        self._call += 1
        return self._team.swap_lists(make_tag(Channel.PLAN, self._number, self._call), lists)


@dataclass(frozen=True, eq=False)
class Announced:
    """Mirrors here that their owners compute, by owner and ascending, and places of own rows that were told to each worker."""

    mirrors: NDArray[Any]
    mirror_counts: list[int]
    told: list[NDArray[Any]]


def _for_all_rows(taken: Taken, number: NDArray[np.int32], rows: int) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """Lists of some rows, ascending in `number` → of all rows, the others' empty."""
    lengths = np.zeros(rows + 1, np.int64)
    lengths[number.astype(np.int64) + 1] = np.diff(taken.offsets)
    if taken.row_scale is None:
        return np.cumsum(lengths), None
    scale = np.ones(rows, np.float32)
    scale[number] = taken.row_scale
    return np.cumsum(lengths), scale
