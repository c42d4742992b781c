"""The features of each part's halo in a scratch file of its own, in local order (what CATGNN's parts hold of their neighbours).

Halo rows lie scattered over all other shards; picked one by one for a part that comes and goes they would cost a disk seek each.
Laid out once, in one pass over every shard, they are read in order like the part's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.npy import NpyWriter, write_values
from starling.store.parts import Parts, Shard


def halo_file(folder: Path, part: int) -> Path:
    """Where a part's halo rows are."""
    return folder / f"halo-{part:05d}.npy"


class HaloPlaces:
    """Where each part's own rows lie in the halos of others, to write them there."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._begin: dict[int, NDArray[np.int64]] = {}
        self._last: tuple[int, Shard] | None = None

    def of(self, owner: int, start: int, stop: int, hops: int | None = None) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """(part, place in its halo, rows) for the own rows start … stop − 1 that others have, in order, from that place on.

        `hops` counts from a part's own nodes outwards; None are all of them.
        """
        if self._last is None or self._last[0] != owner:  # rows come part by part, in blocks
            self._last = owner, self._parts.shard(owner)
        shard = self._last[1]
        for hop, bounds in enumerate(shard.send_offsets[:hops].tolist()):
            for part in range(len(self._parts)):
                rows = shard.send_rows[bounds[part] : bounds[part + 1]]
                begin, end = np.searchsorted(rows, np.array([start, stop], rows.dtype)).tolist()
                if begin < end:
                    yield part, int(self._halo_of(part)[hop, owner]) + begin, np.asarray(rows[begin:end], np.int64)

    def _halo_of(self, part: int) -> NDArray[np.int64]:
        if part not in self._begin:
            self._begin[part] = np.array(self._parts.shard(part).halo_offsets)
        return self._begin[part]


def write_halo_rows(
    parts: Parts,
    mine: Iterable[int],
    folder: Path,
    blocks: Callable[[int], Iterator[NDArray[Any]]],
    dtype: np.dtype[Any],
    width: int,
) -> None:
    """Write the halo rows of some parts; `blocks` reads a part's own rows once, in order."""
    halos = {part: _HaloFile(parts.shard(part), folder, dtype, width) for part in mine}
    places = HaloPlaces(parts)
    for owner in range(len(parts)):
        start = 0
        for block in blocks(owner):
            for part, place, rows in places.of(owner, start, start + len(block)):
                if part in halos:
                    halos[part].write(place, block[rows - start])
            start += len(block)


class _HaloFile:
    """The file of one part, filled wherever rows belong."""

    def __init__(self, shard: Shard, folder: Path, dtype: np.dtype[Any], width: int) -> None:
        self._path, self._row_bytes = halo_file(folder, shard.part), width * dtype.itemsize
        with NpyWriter(self._path, dtype, (width,)) as file:
            file.rows = shard.local - shard.owned  # what the header says; the rows themselves are on their way
        self._begin = self._path.stat().st_size

    def write(self, place: int, rows: NDArray[Any]) -> None:
        """Set the halo's rows from `place` on."""
        with self._path.open("r+b") as out:
            out.seek(self._begin + place * self._row_bytes)
            write_values(out, rows)
