"""Neighbourhoods that look only into the past: every hop takes edges whose time is at most that of the target they are taken for.

So a node that two targets of different times lead to has two pasts, and stands in the batch once for each; targets of the same time
share it. This is PyG's temporal sampling (`disjoint` trees, edges no younger than the seed, at every hop), with trees of equal time
merged. In-degrees, which means and GCN divide by, are those of the row's past too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.kernels.sampling import Taken
from starling.kernels.typed_sampling import EdgeRules, count_past, take_by_rules
from starling.plan.batch import BatchPlan, Block
from starling.plan.fanouts import Fanout
from starling.plan.hops import Moment, rule_numbers
from starling.plan.source import NeighbourSource


@dataclass(frozen=True, eq=False)
class _Seen:
    """Rows as they are seen at one of the batch's moments; destinations of a hop come first."""

    rows: NDArray[Any]
    moment: NDArray[np.int64]


def check_times(*, edges: bool, nodes: bool) -> None:
    """Refuse a graph whose edges or nodes have no times."""
    if not edges:
        raise InputError(
            "Looking only into the past needs a time for every edge, and the graph has none. Import it with times."
        )
    if not nodes:
        raise InputError(
            "Looking into the past needs a time for every node, and the graph has none. Import a node table with times, or leave "
            "out past: --before is one time for all."
        )


class PastLists:
    """Neighbour lists with times; `hops` has the fan-outs of each hop, one a relation, or one for all edges."""

    def __init__(
        self, graph: NeighbourSource, hops: Sequence[Sequence[Fanout]], *, replace: bool = False, threads: int | None = None
    ) -> None:
        assert graph.edge_time is not None, "checked before (`check_times`)"
        self._graph, self._time, self._replace, self._threads = graph, graph.edge_time, replace, threads
        types = graph.edge_type if len(hops[0]) > 1 else None
        self._rules = [EdgeRules(rule_numbers(fanouts), types, graph.edge_time) for fanouts in hops]

    def take(self, rows: NDArray[Any], limits: NDArray[Any], moment: Moment) -> Taken:
        """In-edges of each row that are no younger than its limit, all or a sample."""
        self._graph.check_lists(rows)
        return take_by_rules(
            self._graph.incoming,
            self._rules[moment.hop],
            rows,
            self._graph.positions_of(rows),
            limits,
            moment.key,
            replace=self._replace,
            threads=self._threads,
        )

    def degrees(self, rows: NDArray[Any], limits: NDArray[Any]) -> NDArray[np.int64]:
        """How many in-edges of each row are no younger than its limit."""
        self._graph.check_lists(rows)
        return count_past(self._graph.incoming, self._time, rows, limits, self._threads)


class PastNeighbours:
    """Plans of targets with their pasts, out of a whole graph."""

    def __init__(
        self,
        graph: NeighbourSource,
        hops: Sequence[Sequence[Fanout]],
        seed: int,
        *,
        replace: bool = False,
        threads: int | None = None,
    ) -> None:
        check_times(edges=graph.edge_time is not None, nodes=graph.node_time is not None)
        self._graph, self._seed, self._hops = graph, seed, len(hops)
        self._lists = PastLists(graph, hops, replace=replace, threads=threads)

    def plan(self, epoch: int, step: int, targets: NDArray[Any]) -> BatchPlan:
        """One step: blocks outermost first, inputs with a row for each (node, moment)."""
        assert self._graph.node_time is not None, "checked when this was made"
        inputs, blocks = past_blocks(
            targets,
            self._graph.node_time[targets],
            self._graph.rows,
            [Moment(self._seed, epoch, step, hop) for hop in range(self._hops)],
            self._lists.take,
            self._lists.degrees,
        )
        return BatchPlan(epoch, step, inputs, blocks, targets, np.arange(len(targets), dtype=np.int32))


TakePast = Callable[[NDArray[Any], NDArray[Any], Moment], Taken]
"""From rows and their limits to the in-edges of a hop."""
PastDegrees = Callable[[NDArray[Any], NDArray[Any]], NDArray[np.int64]]
"""From rows and their limits to their in-degrees then."""


def past_blocks(
    targets: NDArray[Any],
    times: NDArray[Any],
    rows: int,
    hops: Sequence[Moment],
    take: TakePast,
    degrees: PastDegrees,
) -> tuple[NDArray[Any], tuple[Block, ...]]:
    """The inputs, a row for each (node, moment), and the blocks, outermost first; rows are numbers below `rows`."""
    limits, moment = np.unique(times, return_inverse=True)
    seen, blocks = _Seen(targets, moment.reshape(-1).astype(np.int64)), list[Block]()
    for hop in hops:
        taken = take(seen.rows, limits[seen.moment], hop)
        seen, places = _grown(seen, taken.neighbours, np.diff(taken.offsets), rows)
        blocks.append(Block(taken.offsets, places, taken.entry, len(seen.rows), edge_scale=taken.edge_scale))
    degree = degrees(seen.rows, limits[seen.moment])
    return seen.rows, tuple(replace(block, degree=degree[: block.sources]) for block in reversed(blocks))


def _grown(seen: _Seen, neighbours: NDArray[Any], counts: NDArray[np.int64], rows: int) -> tuple[_Seen, NDArray[np.int32]]:
    """What is seen after a hop, what was before first, then the rest as it appears; and the place of each neighbour."""
    moment = np.concatenate([seen.moment, np.repeat(seen.moment, counts)])
    every = np.concatenate([seen.rows, neighbours])
    _, first, which = np.unique(moment * rows + every, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    kept = first[order]
    return _Seen(every[kept], moment[kept]), rank[which.reshape(-1)[len(seen.rows) :]]
