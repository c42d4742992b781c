"""Samplers of some of the edges that a shard's lists have: those of a time, those that train.

What is left of a list keeps its order, so a sample is that of a graph which never had the others. It is held in memory, since the
files have all edges: three numbers of 4 or 8 bytes an edge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.neighbours import MakeHops
from starling.kernels.csr import Csr, index_type
from starling.kernels.sampling import Taken
from starling.plan.hops import HopSampler, Moment
from starling.plan.source import NeighbourSource
from starling.store.parts import Shard

Keep = Callable[[NeighbourSource], NDArray[np.bool_]]
"""Which entries of the lists stay."""


@dataclass(frozen=True, eq=False)
class OfKept(HopSampler):
    """What a sampler takes of lists that have only some entries of a shard's, `kept`."""

    sampler: HopSampler
    kept: NDArray[Any]

    def take(self, rows: NDArray[Any], moment: Moment) -> Taken:
        """The in-edges to compute on, as entries of the shard."""
        taken = self.sampler.take(rows, moment)
        return replace(taken, entry=self.kept[taken.entry].astype(np.int64))


def looped_by(shard: Shard, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of a shard's own nodes have a self-loop among the entries of its lists that stay."""
    offsets = np.asarray(shard.incoming.offsets[: shard.owned + 1])
    row = np.repeat(np.arange(shard.owned), np.diff(offsets))
    looped = np.zeros(shard.owned, np.bool_)
    looped[row[(np.asarray(shard.incoming.neighbours[: offsets[-1]]) == row) & kept[: offsets[-1]]]] = True
    return looped


def of_kept(make_hops: MakeHops, keep: Keep) -> MakeHops:
    """Samplers of the edges that stay, as if there were no others."""

    def made(lists: NeighbourSource) -> list[OfKept]:
        incoming = lists.incoming
        kept = np.flatnonzero(keep(lists)).astype(index_type(len(incoming.neighbours)))
        left = Csr(
            np.searchsorted(kept, np.asarray(incoming.offsets)),
            np.asarray(incoming.neighbours)[kept],
            np.asarray(incoming.edge)[kept],
        )
        weight, kind, time = (
            None if table is None else table[kept] for table in (lists.edge_weight, lists.edge_type, lists.edge_time)
        )
        then = replace(lists, incoming=left, edge_weight=weight, edge_type=kind, edge_time=time, degree=None)
        return [OfKept(sampler, kept) for sampler in make_hops(then)]

    return made
