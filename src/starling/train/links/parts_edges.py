"""The edges of a partitioned graph, part by part: which of them train, and what is asked of all of them in passes over the parts.

In memory is one part's lists at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.kept_edges import KeptEdges, count_kept, entries_of
from starling.engine.data.parts_source import PartsSource, edge_column, shard_array, weighted_degrees
from starling.kernels.csr import Csr
from starling.plan.links.negatives import known_pairs
from starling.store import shard_layout as layout
from starling.store.parts import Shard
from starling.train.links.data import AllEdges, HeldEdges
from starling.train.links.edge_split import EdgeSplit

_EDGE_BYTES = 24
"""Of an edge of a part that trains: sorted lists to draw negatives by, and the order in which its edges are dealt out."""


def held_by_part(source: PartsSource, part: int, *, halo: bool = False) -> HeldEdges:
    """The in-edges of a part's own nodes; with `halo` those of halo nodes too, as far as the part has them."""
    shard = source.parts.shard(part)
    there, offsets = entries_of(shard, source.kept), shard_array(shard, layout.IN_OFFSETS)
    if not isinstance(there, slice):
        offsets = np.searchsorted(there, offsets)
    offsets = offsets if halo else offsets[: shard.owned + 1]

    def column(name: str) -> NDArray[Any]:
        return edge_column(shard, name)[there][: offsets[-1]]

    return HeldEdges(
        Csr(offsets, *(shard_array(shard, name)[there][: offsets[-1]] for name in (layout.IN_NEIGHBOURS, layout.IN_EDGE))),
        shard_array(shard, layout.POSITION),
        column("type").astype(np.int64) if "type" in source.edge_tables else None,
        source.parts.manifest.nodes,
        source.directed,
        column,
    )


def edges_by_part(source: PartsSource) -> AllEdges:
    """All edges, a worker's own parts being its pieces."""
    return AllEdges(
        source.path,
        lambda: (held_by_part(source, part) for part in source.mine),
        tuple(source.parts.manifest.edge_tables),
        "type" in source.edge_tables,
        source.total,
        lambda values: source.team.all_lists(source.calls.next_tag(), values),
    )


@dataclass(frozen=True, eq=False)
class TrainingEdges:
    """The edges of `source` that train, by a rule, of any shard."""

    source: PartsSource
    rule: EdgeSplit

    def there(self, shard: Shard) -> NDArray[np.bool_]:
        """Which entries of a shard's lists are these edges."""
        trains = self.rule.trains(held_by_part(self.source, shard.part, halo=True))
        found = np.zeros(len(shard.incoming.neighbours), np.bool_)
        found[entries_of(shard, self.source.kept)] = trains
        return found


def training_parts(source: PartsSource, rule: EdgeSplit) -> PartsSource:
    """The same parts without held-out edges; workers tell one another the degrees that are left, 8 bytes a node.

    Nor have they labels: a part knows those of its own nodes, and the ends of its pairs are halo nodes too.
    """
    mine = count_kept(source.parts, source.mine, TrainingEdges(source, rule))
    degree, looped = (
        None if own is None else np.concatenate(source.team.all_lists(source.calls.next_tag(), own.astype(np.int64)))
        for own in (mine.degree, mine.looped)
    )
    assert degree is not None
    kept = KeptEdges(mine.edges, degree, None if looped is None else looped.astype(np.bool_))
    shards = [source.parts.shard(part) for part in range(len(source.parts))]
    weighted = None if source.weighted_degree is None else weighted_degrees(shards, kept)
    return replace(source, kept=kept, weighted_degree=weighted, edge_numbers=True, edge_bytes=_EDGE_BYTES, labels=None)


@dataclass(frozen=True, eq=False)
class EdgesOfParts:
    """Tells whether pairs are edges, by looking into the parts that own their destinations, one after the other."""

    source: PartsSource

    def __call__(self, source: NDArray[np.int64], destination: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether there is an edge from each source to each destination, given as positions."""
        parts = self.source.parts
        ids = np.asarray(parts.global_of_position[destination], np.int64)
        owner, found = parts.owner_of(ids), np.zeros(len(ids), np.bool_)
        for part in np.unique(owner).tolist():
            held, asked = held_by_part(self.source, part), np.flatnonzero(owner == part)
            known = known_pairs(held.lists, held.position)
            found[asked] = known.holds(ids[asked] - parts.offsets[part], source[asked])
        return found


def complete_part(held: HeldEdges) -> bool:
    """Whether every node of a part is linked to every other one of it, so that no pair of them is left."""
    lists = held.lists
    if np.diff(lists.offsets).min(initial=lists.rows) < lists.rows - 1:
        return False
    inside = lists.neighbours < lists.rows
    before = np.concatenate([[0], np.cumsum(inside)])
    among = Csr(before[lists.offsets], lists.neighbours[inside], lists.edge[inside])
    return known_pairs(among, held.position).linked_to_all(held.position, lists.rows) == lists.rows
