"""The features of each part's halo in a scratch file of its own, in local order (what CATGNN's parts hold of their neighbours).

Halo rows lie scattered over all other shards; picked one by one for a part that comes and goes they would cost a disk seek each.
Laid out once, in one pass over every shard, they are read in order like the part's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.npy import NpyWriter, write_values
from starling.engine.data.sequential import row_blocks_of
from starling.store.parts import Parts, Shard
from starling.store.shard_layout import shard_name


def halo_file(folder: Path, part: int) -> Path:
    """Where a part's halo rows are."""
    return folder / f"halo-{part:05d}.npy"


def write_halo_rows(parts: Parts, mine: Iterable[int], folder: Path) -> None:
    """Write the halo rows of the dense node table 'x' for some parts; reads the table once, in blocks."""
    table = parts.manifest.node_tables["x"]
    width = math.prod(table.shape[1:])
    halos = [_Halo(parts.shard(part), folder, np.dtype(table.dtype), width) for part in mine]
    for owner in range(len(parts)):
        first = parts.manifest.offsets[owner]
        for block in row_blocks_of(parts.path / shard_name(owner) / table.files[0], width, drop=True):
            for halo in halos:
                halo.take(owner, first, block)
            first += len(block)


class _Halo:
    """The file of one part, filled wherever rows belong."""

    def __init__(self, shard: Shard, folder: Path, dtype: np.dtype[Any], width: int) -> None:
        self._shard, self._path, self._row_bytes = shard, halo_file(folder, shard.part), width * dtype.itemsize
        with NpyWriter(self._path, dtype, (width,)) as file:
            file.rows = shard.local - shard.owned  # what the header says; the rows themselves are on their way
        self._begin = self._path.stat().st_size

    def take(self, owner: int, first: int, block: NDArray[Any]) -> None:
        """Write those of an owner's rows first, first + 1, … that are in this halo."""
        for bounds in self._shard.halo_offsets if owner != self._shard.part else ():  # hop by hop, each in ascending order
            start, stop = int(bounds[owner]), int(bounds[owner + 1])
            ids = self._shard.halo_global[start:stop]
            begin, end = np.searchsorted(ids, [first, first + len(block)]).tolist()
            if begin < end:
                with self._path.open("r+b") as out:
                    out.seek(self._begin + (start + begin) * self._row_bytes)
                    write_values(out, block[np.asarray(ids[begin:end], np.int64) - first])
