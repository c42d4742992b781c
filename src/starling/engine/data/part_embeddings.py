"""Features of parts whose nodes learn rows: beside the features that a part has of them, or in place of those that a type lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.part_features import PartFeatures
from starling.engine.embeddings.features import Beside, EmbeddedFeatures, InPlace
from starling.engine.embeddings.in_turn import PartRows, ShownRows
from starling.engine.embeddings.table import EmbeddingTable, TableSpec
from starling.engine.features import Features
from starling.engine.typed_features import TypedFeatures
from starling.store.parts import Shard


@dataclass(frozen=True, eq=False)
class EmbeddedPartFeatures(PartFeatures):
    """Of every part: `fixed` features, and learnt rows, of this worker's parts (`table`) and of all nodes as shown."""

    fixed: PartFeatures
    table: EmbeddingTable
    shown: ShownRows
    learning: NDArray[np.int64] | None
    """Global ids of the nodes that learn rows, ascending; None: all of them, and rows stand beside features."""
    own: NDArray[np.int64] | range
    """Those of this worker's parts, in the order of the table's rows."""
    first: Mapping[int, int]
    """The table's first row of each of these parts."""

    @property
    def nbytes(self) -> int:
        """What is held for every node of the graph, and what the table holds of its rows."""
        which = 0 if self.learning is None else self.learning.nbytes + self.everywhere.count
        return self.fixed.nbytes + self.table.held_bytes + which

    def bytes_of(self, shard: Shard) -> int:
        """What a part's features take in memory, with the learnt rows of its halo; its own are in the table."""
        return self.fixed.bytes_of(shard) + 4 * self.table.width * (shard.local - shard.owned)

    def lay_out(self, mine: Iterable[int], folder: Path) -> None:
        """Write the halo's features of some parts; learnt rows move."""
        self.fixed.lay_out(mine, folder)

    def of(self, shard: Shard, ids: NDArray[np.int64], *, keep: bool, halo: Path | None) -> Features:
        """The local rows of one of this worker's parts: own nodes' learnt rows as they are now, the halo's as shown."""
        fixed, row_of, owned = self.fixed.of(shard, ids, keep=keep, halo=halo), None, shard.owned
        if self.learning is not None:
            learns = np.isin(ids, self.learning)
            row_of, ids, owned = np.where(learns, np.cumsum(learns) - 1, -1), ids[learns], int(learns[:owned].sum())
        first = self.first[shard.part]
        rows = PartRows(self.table, self.shown, range(first, first + owned), ids[owned:], keep=keep)
        return EmbeddedFeatures(fixed, rows, row_of)

    def show(self) -> None:
        """Show this worker's rows as they are now; nobody reads meanwhile, also of other workers."""
        self.shown.show(self.table, self.own)


def embedded(features: PartFeatures, mine: range, spec: TableSpec) -> EmbeddedPartFeatures:
    """Features of all parts with learnt rows for all nodes; where types have features of their own, for those of types without."""
    parts, fixed = features.parts, features.everywhere
    offsets = parts.manifest.offsets
    shown, begin, end = ShownRows(parts.manifest.nodes, spec.width), offsets[mine.start], offsets[mine.stop]
    if isinstance(fixed, TypedFeatures):
        learning = fixed.bare
        own: NDArray[np.int64] | range = learning[np.searchsorted(learning, begin) : np.searchsorted(learning, end)]
        first = {part: int(np.searchsorted(own, offsets[part])) for part in mine}
        features = PartFeatures(parts, fixed.widened(spec.width))
        everywhere: Features = InPlace(features.everywhere, shown, learning)
    else:
        learning, own, first = None, range(begin, end), {part: offsets[part] - begin for part in mine}
        everywhere = Beside(fixed, shown)
    table = EmbeddingTable(parts.position_of_global[own if learning is not None else slice(begin, end)], spec)
    return EmbeddedPartFeatures(parts, everywhere, features, table, shown, learning, own, first)
