"""Parts as they were at a time (`--before`), for whoever reads them one at a time: later edges are left out of lists and degrees.

Degrees are those of the whole graph at that time, of halo nodes too, so they are counted once, over all shards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.before import EdgesBefore
from starling.engine.data.places import Places
from starling.store.parts import Shard


@dataclass(frozen=True, eq=False)
class PartsBefore:
    """The edges of `edges`, and by global id how many come into a node, and which nodes have self-loops (None: none has)."""

    edges: EdgesBefore
    degree: NDArray[np.int64]
    looped: NDArray[np.bool_] | None

    @property
    def nbytes(self) -> int:
        """What is held for every node of the graph."""
        return self.degree.nbytes + (0 if self.looped is None else self.looped.nbytes)


def count_before(places: Places, time: float | None) -> PartsBefore | None:
    """Count the edges that are there at a time; None where all are."""
    if time is None:
        return None
    edges, parts, looped = EdgesBefore(time), range(len(places.parts)), None
    if places.parts.manifest.looped:
        looped = np.concatenate([edges.loops(places, part) for part in parts])
    return PartsBefore(edges, np.concatenate([edges.degrees(places, part) for part in parts]), looped)


def entries_of(shard: Shard, then: PartsBefore | None) -> NDArray[Any] | slice:
    """The entries of a shard's lists that are there."""
    return slice(None) if then is None else np.flatnonzero(then.edges.there(shard))
