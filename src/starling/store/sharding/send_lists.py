"""Who needs whose rows: halo lists seen from the owner's side, so that no index is exchanged when workers start.

Both lists are cut the same way: offsets [hops, p + 1], hop by hop and inside a hop by the other part. What part i sends part j
for hop h stands in the order in which j holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.npy import NpyReader, NpyWriter, save_array
from starling.core.progress import Progress
from starling.kernels.csr import index_type
from starling.store.shard_layout import HALO_GLOBAL, HALO_OFFSETS, SEND_OFFSETS, SEND_ROWS


def write_halo(shard: Path, halo: Sequence[NDArray[Any]], offsets: NDArray[np.int64]) -> None:
    """Write the global ids of a part's halo, hop by hop, and where each owner's begin."""
    bounds = np.zeros((max(1, len(halo)), len(offsets)), np.int64)
    before = 0
    for hop, nodes in enumerate(halo):
        bounds[hop] = before + np.searchsorted(nodes, offsets)
        before += len(nodes)
    save_array(shard / HALO_OFFSETS, bounds)
    empty = np.zeros(0, index_type(int(offsets[-1])))
    save_array(shard / HALO_GLOBAL, np.concatenate([empty, *halo]))


def send_list_bytes(parts: int, hops: int) -> int:
    """What `write_send_lists` holds: where the halo of each owner begins, in every part."""
    return 8 * hops * parts * (parts + 1)


def write_send_lists(shards: Sequence[Path], offsets: NDArray[np.int64], hops: int, progress: Progress) -> None:
    """Write for each part the local rows that every other part holds as halo."""
    parts = len(shards)
    bounds = np.empty((parts, hops, parts + 1), np.int64)
    for part, shard in enumerate(shards):
        bounds[part] = np.load(shard / HALO_OFFSETS)
    halos = [NpyReader(shard / HALO_GLOBAL) for shard in shards]  # so that each header is read once
    with progress.task("Writing send lists", parts, unit="parts") as task:
        for part, shard in enumerate(shards):
            counts = (bounds[:, :, part + 1] - bounds[:, :, part]).T
            ends = np.cumsum(counts.reshape(-1)).reshape(hops, parts)
            send_offsets = np.zeros((hops, parts + 1), np.int64)
            send_offsets[:, 1:] = ends
            send_offsets[1:, 0] = ends[:-1, -1]
            save_array(shard / SEND_OFFSETS, send_offsets)
            with NpyWriter(shard / SEND_ROWS, index_type(int(offsets[part + 1] - offsets[part]))) as writer:
                for hop in range(hops):
                    for other in np.flatnonzero(counts[hop]).tolist():
                        low, high = bounds[other, hop, part : part + 2].tolist()
                        writer.append(halos[other].read(low, high) - offsets[part])
            task.advance(1)
