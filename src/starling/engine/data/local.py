"""A part by itself: its own nodes and their halo, as if nothing lay beyond (CATGNN, `--local-only`).

Own nodes have whole neighbour lists, which name halo nodes too. Halo nodes of the last hop have no list here; in this view theirs
is empty, so they bring their features and nothing further. Choices are keyed by positions in the imported graph, as everywhere.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from starling.kernels.csr import Csr
from starling.plan.source import ENDS_ALONE, EdgeColumns, NeighbourSource, source_of_shard
from starling.store.parts import Shard


def local_source(shard: Shard, columns: EdgeColumns = ENDS_ALONE) -> NeighbourSource:
    """The neighbour lists of a part, one for each of its N + H local rows: those of the outermost halo are empty.

    Edges are mapped from disk; 8 bytes a local row are held.
    """
    source = source_of_shard(shard, columns)
    lists = source.incoming
    return replace(source, incoming=Csr(padded_offsets(lists.offsets, shard.local), lists.neighbours, lists.edge))


def global_ids(shard: Shard) -> NDArray[np.int64]:
    """The global id of every local row [N + H]: own nodes first, then the halo. 8 bytes a row."""
    own = np.arange(shard.first_global, shard.first_global + shard.owned, dtype=np.int64)
    return np.concatenate([own, np.asarray(shard.halo_global, np.int64)])


def padded_offsets(offsets: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """Offsets of so many lists, those beyond the given ones empty."""
    missing = rows + 1 - len(offsets)
    return np.concatenate([offsets, np.full(missing, offsets[-1], np.int64)])
