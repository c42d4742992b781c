"""Edges that are there at a time (`--before`), out of parts whose shards have all edges: lists to sample from, and degrees.

Times lie with the edges, so whoever samples on a shard leaves out later ones by itself. Lists keep their order, so a sample is that
of a graph imported without them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.times import no_later
from starling.engine.data.neighbours import MakeHops
from starling.engine.data.places import Places
from starling.kernels.csr import Csr
from starling.kernels.sampling import Taken
from starling.plan.hops import HopSampler, Moment
from starling.plan.source import NeighbourSource


@dataclass(frozen=True, eq=False)
class OfKept(HopSampler):
    """What a sampler takes of lists that have only some entries of a shard's, `kept`."""

    sampler: HopSampler
    kept: NDArray[np.int64]

    def take(self, rows: NDArray[Any], moment: Moment) -> Taken:
        """The in-edges to compute on, as entries of the shard."""
        taken = self.sampler.take(rows, moment)
        return replace(taken, entry=self.kept[taken.entry])


@dataclass(frozen=True)
class EdgesBefore:
    """Edges whose time is at most `time`."""

    time: float

    def hops(self, make_hops: MakeHops) -> MakeHops:
        """Samplers of these edges alone, for lists that know their times; what is left of the lists is held in memory."""

        def made(lists: NeighbourSource) -> list[OfKept]:
            assert lists.edge_time is not None
            left, kept = self._left(lists.incoming, lists.edge_time)
            weight, kind = (None if table is None else table[kept] for table in (lists.edge_weight, lists.edge_type))
            then = replace(lists, incoming=left, edge_weight=weight, edge_type=kind, edge_time=None, degree=None)
            return [OfKept(sampler, kept) for sampler in make_hops(then)]

        return made

    def degrees(self, places: Places, part: int) -> NDArray[np.int64]:
        """How many of the edges come into each of a part's own nodes."""
        shard = places.parts.shard(part)
        before = np.concatenate([[0], np.cumsum(no_later(np.asarray(shard.edge_table("time")), self.time))])
        return np.diff(before[np.asarray(shard.incoming.offsets[: shard.owned + 1])])

    def weights(self, places: Places, part: int) -> NDArray[np.float32]:
        """The weight of each edge of a part, 0 of later ones: what weighted degrees are summed from."""
        shard = places.parts.shard(part)
        weight = np.asarray(shard.edge_table("weight"), np.float32)
        return np.where(no_later(np.asarray(shard.edge_table("time")), self.time), weight, np.float32(0))

    def _left(self, lists: Csr, time: NDArray[Any]) -> tuple[Csr, NDArray[np.int64]]:
        """The lists without later edges, and which entries are left."""
        kept = np.flatnonzero(no_later(np.asarray(time), self.time))
        offsets = np.searchsorted(kept, np.asarray(lists.offsets))
        return Csr(offsets, np.asarray(lists.neighbours)[kept], np.asarray(lists.edge)[kept]), kept
