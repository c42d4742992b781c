"""Parts of which some edges are kept, those of a time (`--before`) or those that train, for whoever reads them one at a time.

Other edges are left out of lists and degrees. Degrees are those of the whole graph with the kept edges, of halo nodes too, so they
are counted once, over all shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.kept_lists import looped_by
from starling.store.parts import Parts, Shard


class Keeps(Protocol):
    """Says which edges are kept, of any shard."""

    def there(self, shard: Shard) -> NDArray[np.bool_]:
        """Which entries of a shard's lists are these edges."""


@dataclass(frozen=True, eq=False)
class KeptEdges:
    """The edges of `edges`, and by global id how many come into a node, and which nodes have self-loops (None: none has)."""

    edges: Keeps
    degree: NDArray[np.int64]
    looped: NDArray[np.bool_] | None

    @property
    def nbytes(self) -> int:
        """What is held for every node of the graph."""
        return self.degree.nbytes + (0 if self.looped is None else self.looped.nbytes)


def count_kept(parts: Parts, some: Sequence[int], edges: Keeps) -> KeptEdges:
    """Count the kept edges of some parts, which follow one another, in one pass: degrees and loops of their own nodes."""
    degrees, loops = [np.empty(0, np.int64)], [np.empty(0, np.bool_)]
    for part in some:
        shard = parts.shard(part)
        there = edges.there(shard)
        degrees.append(kept_degrees(shard, there))
        if parts.manifest.looped:
            loops.append(looped_by(shard, there))
    return KeptEdges(edges, np.concatenate(degrees), np.concatenate(loops) if parts.manifest.looped else None)


def kept_degrees(shard: Shard, there: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many of the entries that are kept come into each of a shard's own nodes."""
    before = np.concatenate([[0], np.cumsum(there)])
    return np.diff(before[np.asarray(shard.incoming.offsets[: shard.owned + 1])])


def entries_of(shard: Shard, kept: KeptEdges | None) -> NDArray[Any] | slice:
    """The entries of a shard's lists that are kept; all where nothing is left out."""
    return slice(None) if kept is None else np.flatnonzero(kept.edges.there(shard))
