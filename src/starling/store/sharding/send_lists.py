"""Who needs whose rows: halo lists seen from the owner's side, so that no index is exchanged when workers start.

Both lists are cut the same way: offsets [hops, p + 1], hop by hop and inside a hop by the other part. What part i sends part j
for hop h stands in the order in which j holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.npy import NpyReader, save_array
from starling.core.progress import Progress
from starling.kernels.csr import index_type
from starling.store.shard_layout import HALO_GLOBAL, HALO_OFFSETS, SEND_OFFSETS, SEND_ROWS

ROW_BYTES = 48
"""Of a row while it is put in order: its id twice, its owner twice, its place."""


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


def write_send_lists(
    shards: Sequence[Path], offsets: NDArray[np.int64], hops: int, progress: Progress, *, memory: int = 1 << 28
) -> None:
    """Write for each part the local rows that every other part holds as halo.

    Owners are taken in ranges whose rows fit into `memory`, and every halo is read once for each range: p readings, not p², since
    the rows of consecutive owners stand together in a halo.
    """
    parts = len(shards)
    bounds = np.empty((parts, hops, parts + 1), np.int64)
    for part, shard in enumerate(shards):
        bounds[part] = np.load(shard / HALO_OFFSETS)
    halos = [NpyReader(shard / HALO_GLOBAL) for shard in shards]  # so that each header is read once
    with progress.task("Writing send lists", parts, unit="parts") as task:
        for first, last in _ranges_of_owners(bounds, memory):
            owners = range(first, last)
            by_hop = [_by_owner(halos, bounds[:, hop, [first, last]], offsets, owners) for hop in range(hops)]
            for part, rows in zip(owners, zip(*by_hop, strict=True), strict=True):
                counts = (bounds[:, :, part + 1] - bounds[:, :, part]).T
                _write_list(shards[part], counts, rows, int(offsets[part]), int(offsets[part + 1] - offsets[part]))
                task.advance(1)


def _ranges_of_owners(bounds: NDArray[np.int64], memory: int) -> Iterator[tuple[int, int]]:
    """Consecutive owners, as many at a time as have rows for `memory` bytes, at least one."""
    ends = bounds.sum(axis=(0, 1))  # rows of all owners before each
    ends -= ends[0]
    first, parts = 0, len(bounds)
    while first < parts:
        fit = int(np.searchsorted(ends, ends[first] + memory // ROW_BYTES, side="right")) - 1
        last = min(max(fit, first + 1), parts)
        yield first, last
        first = last


def _by_owner(
    halos: Sequence[NpyReader], bounds: NDArray[np.int64], offsets: NDArray[np.int64], owners: range
) -> list[NDArray[Any]]:
    """What all halos hold of each owner, in the order of the parts that hold it; `bounds` are these owners' rows of each halo."""
    ids = np.concatenate([halo.read(low, high) for halo, (low, high) in zip(halos, bounds.tolist(), strict=True)])
    owner = (np.searchsorted(offsets, ids, side="right") - 1 - owners.start).astype(np.min_scalar_type(len(owners)))
    ends = np.cumsum(np.bincount(owner, minlength=len(owners)))
    return np.split(ids[np.argsort(owner, kind="stable")], ends[:-1])


def _write_list(shard: Path, counts: NDArray[np.int64], by_hop: Sequence[NDArray[Any]], first: int, nodes: int) -> None:
    """Write one part's send list: for each hop its rows in the order of the parts that hold them, counts [hops, p] of each."""
    hops, parts = counts.shape
    ends = np.cumsum(counts.reshape(-1)).reshape(hops, parts)
    send_offsets = np.zeros((hops, parts + 1), np.int64)
    send_offsets[:, 1:] = ends
    send_offsets[1:, 0] = ends[:-1, -1]
    save_array(shard / SEND_OFFSETS, send_offsets)
    save_array(shard / SEND_ROWS, (np.concatenate(by_hop) - first).astype(index_type(nodes)))
