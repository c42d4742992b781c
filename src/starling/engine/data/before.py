"""Edges that are there at a time (`--before`), out of parts whose shards have all edges: lists to sample from, and degrees.

Times lie with the edges, so whoever samples on a shard leaves out later ones by itself. Lists keep their order, so a sample is that
of a graph imported without them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from starling.core.times import no_later
from starling.engine.data.kept_edges import kept_degrees
from starling.engine.data.kept_lists import looped_by, of_kept
from starling.engine.data.neighbours import MakeHops
from starling.engine.data.places import Places
from starling.plan.source import NeighbourSource
from starling.store.parts import Shard


@dataclass(frozen=True)
class EdgesBefore:
    """Edges whose time is at most `time`."""

    time: float

    def hops(self, make_hops: MakeHops) -> MakeHops:
        """Samplers of these edges alone, for lists that know their times."""

        def are_there(lists: NeighbourSource) -> NDArray[np.bool_]:
            assert lists.edge_time is not None
            return no_later(np.asarray(lists.edge_time), self.time)

        return of_kept(make_hops, are_there)

    def there(self, shard: Shard) -> NDArray[np.bool_]:
        """Which entries of a shard's lists are these edges."""
        return no_later(np.asarray(shard.edge_table("time")), self.time)

    def degrees(self, places: Places, part: int) -> NDArray[np.int64]:
        """How many of the edges come into each of a part's own nodes."""
        shard = places.parts.shard(part)
        return kept_degrees(shard, self.there(shard))

    def loops(self, places: Places, part: int) -> NDArray[np.bool_]:
        """Which of a part's own nodes have a self-loop among the edges."""
        shard = places.parts.shard(part)
        return looped_by(shard, self.there(shard))

    def weights(self, places: Places, part: int) -> NDArray[np.float32]:
        """The weight of each edge of a part, 0 of later ones: what weighted degrees are summed from."""
        shard = places.parts.shard(part)
        weight = np.asarray(shard.edge_table("weight"), np.float32)
        return np.where(self.there(shard), weight, np.float32(0))
