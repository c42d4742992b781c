"""Neighbourhoods that look only into the past: every hop takes edges whose time is at most that of the target they are taken for.

So a node that two targets of different times lead to has two pasts, and stands in the batch once for each; targets of the same time
share it. This is PyG's temporal sampling (`disjoint` trees, edges no younger than the seed, at every hop), with trees of equal time
merged. In-degrees, which means and GCN divide by, are those of the row's past too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
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


class PastNeighbours:
    """Plans of targets with their pasts; `hops` has the fan-outs of each hop, one a relation, or one for all edges."""

    def __init__(
        self,
        graph: NeighbourSource,
        hops: Sequence[Sequence[Fanout]],
        seed: int,
        *,
        replace: bool = False,
        threads: int | None = None,
    ) -> None:
        if graph.edge_time is None:
            raise InputError(
                "Looking only into the past needs a time for every edge, and the graph has none. Import it with times."
            )
        if graph.node_time is None:
            raise InputError(
                "Looking into the past needs a time for every node, and the graph has none. Import a node table with times, or "
                "give one time for all with --before."
            )
        self._graph, self._seed, self._replace, self._threads = graph, seed, replace, threads
        types = graph.edge_type if len(hops[0]) > 1 else None
        self._rules = [EdgeRules(rule_numbers(fanouts), types, graph.edge_time) for fanouts in hops]

    def plan(self, epoch: int, step: int, targets: NDArray[Any]) -> BatchPlan:
        """One step: blocks outermost first, inputs with a row for each (node, moment)."""
        graph, blocks = self._graph, list[Block]()
        assert graph.node_time is not None, "checked when this was made"
        assert graph.edge_time is not None, "checked when this was made"
        times, moment = np.unique(graph.node_time[targets], return_inverse=True)
        seen = _Seen(targets, moment.reshape(-1).astype(np.int64))
        for hop, rules in enumerate(self._rules):
            graph.check_lists(seen.rows)
            taken = take_by_rules(
                graph.incoming,
                rules,
                seen.rows,
                graph.positions_of(seen.rows),
                times[seen.moment],
                Moment(self._seed, epoch, step, hop).key,
                replace=self._replace,
                threads=self._threads,
            )
            seen, places = _grown(seen, taken.neighbours, np.diff(taken.offsets), graph.rows)
            blocks.append(Block(taken.offsets, places, taken.entry, len(seen.rows), edge_scale=taken.edge_scale))
        graph.check_lists(seen.rows)
        degree = count_past(graph.incoming, graph.edge_time, seen.rows, times[seen.moment], self._threads)
        with_degrees = [
            Block(b.offsets, b.neighbours, b.edge, b.sources, edge_scale=b.edge_scale, degree=degree[: b.sources])
            for b in reversed(blocks)
        ]
        outputs = np.arange(len(targets), dtype=np.int32)
        return BatchPlan(epoch, step, seen.rows, tuple(with_degrees), targets, outputs)


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
