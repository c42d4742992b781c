"""The neighbourhood of some seeds as PyG samples it: every node's neighbours once, those of a hop at that hop's fan-out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.neighbours import Neighbourhood
from starling.engine.hybrid.messages.calls import Calls
from starling.kernels.frontier import FrontierPool
from starling.plan.hops import Moment


@dataclass(frozen=True, eq=False)
class Subgraph:
    """Nodes by global id, the seeds first, then hop by hop; edges between them by place, hop by hop, with their entries.

    `nodes_by_hop` and `edges_by_hop` say how many each hop has added.
    """

    nodes: NDArray[np.int64]
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    entry: NDArray[np.int64]
    nodes_by_hop: tuple[int, ...]
    edges_by_hop: tuple[int, ...]


class SubgraphSampler:
    """Samples neighbourhoods; ranks of several hosts sample the same steps in the same order."""

    def __init__(self, around: Neighbourhood, hops: int, seed: int) -> None:
        self._around, self._hops, self._seed = around, hops, seed
        self._frontiers = FrontierPool(around.rows)

    def sample(self, seeds: NDArray[Any], epoch: int, step: int, calls: Calls) -> Subgraph:
        """All hops from the seeds; choices are keyed by (seed, epoch, step, hop) and the node."""
        sources, destinations, entries = [], [], []
        nodes_by_hop, edges_by_hop = [len(seeds)], []
        with self._frontiers.frontier(self._around.rows_of(seeds)) as frontier:
            begin = 0
            for hop in range(self._hops):
                known = len(frontier)
                taken = self._around.take(
                    np.ascontiguousarray(frontier.rows[begin:]), Moment(self._seed, epoch, step, hop), calls
                )
                sources.append(frontier.extend(taken.neighbours))
                destinations.append(np.repeat(np.arange(begin, known), np.diff(taken.offsets)))
                entries.append(taken.entry)
                nodes_by_hop.append(len(frontier) - known)
                edges_by_hop.append(len(taken.neighbours))
                begin = known
            nodes = np.asarray(self._around.ids(frontier.rows.copy()), np.int64)
        return Subgraph(
            nodes,
            _joined(sources),
            _joined(destinations),
            _joined(entries),
            tuple(nodes_by_hop),
            tuple(edges_by_hop),
        )


def _joined(arrays: list[NDArray[Any]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *arrays]).astype(np.int64)
