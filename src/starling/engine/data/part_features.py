"""Features of a part and its halo, in memory or by row where they lie, and the halos' rows laid out for parts that come and go.

Where node types have tables of their own, rows are those of `engine/typed_features.py`: a type's columns, zeros, the type's code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.npy import map_array
from starling.engine.data.halo_rows import halo_file, write_halo_rows
from starling.engine.data.sequential import read_rows, row_blocks_of
from starling.engine.data.some_rows import SomeRows, scaled_like
from starling.engine.features import DenseFeatures, Features, NoFeatures, SpreadFeatures, normalized, open_features
from starling.engine.source import SourceRequest
from starling.engine.typed_features import TypedFeatures, joined_features, shard_features
from starling.store.parts import Parts, Shard
from starling.store.shard_layout import shard_name

_BLOCK_BYTES = 1 << 23


@dataclass(frozen=True, eq=False)
class PartFeatures:
    """Of every part of a directory; `everywhere` has those of all nodes by global id, where they lie."""

    parts: Parts
    everywhere: Features

    @property
    def nbytes(self) -> int:
        """What is held for every node of the graph: types and rows, where types have tables of their own."""
        typed = self.everywhere
        return typed.codes.nbytes + typed.place.nbytes if isinstance(typed, TypedFeatures) else 0

    @property
    def sparse(self) -> bool:
        """Whether some are stored by their non-zeros: such rows have no fixed length and are not laid out."""
        tables = self.parts.manifest.node_tables
        return any(tables[name].layout != "dense" for name in tables if name == "x" or name.startswith("x@"))

    def bytes_of(self, shard: Shard) -> int:
        """What a part's features take in memory, those of its halo included."""
        return 4 * self.everywhere.width * shard.local

    def lay_out(self, mine: Iterable[int], folder: Path) -> None:
        """Write the halo's rows of some parts, each into a file; everything is read once, in blocks."""
        if self.everywhere.width == 0:
            return
        if self.everywhere.type_widths:
            write_halo_rows(self.parts, mine, folder, self._typed_blocks, np.dtype(np.float32), self.everywhere.width)
            return
        table = self.parts.manifest.node_tables["x"]
        write_halo_rows(self.parts, mine, folder, self._stored_blocks, np.dtype(table.dtype), math.prod(table.shape[1:]))

    def of(self, shard: Shard, ids: NDArray[np.int64], *, keep: bool, halo: Path | None) -> Features:
        """A part's local rows, of global ids `ids`: in memory with `keep`; `halo` is the folder where the halo's were laid out."""
        if self.everywhere.width == 0:
            return NoFeatures(shard.local)
        if halo is None:
            some = SomeRows(self.everywhere, ids)
            return DenseFeatures(some.all()) if keep else some
        around = halo_file(halo, shard.part)
        typed = bool(self.everywhere.type_widths)
        if not keep:
            own = SomeRows(self.everywhere, ids[: shard.owned]) if typed else open_features(shard.node_table("x"))
            joined = SpreadFeatures([own, DenseFeatures(map_array(around))])
            return joined if typed else scaled_like(self.everywhere, joined)
        rows = np.empty((shard.local, self.everywhere.width), np.float32)
        read_rows(around, rows[shard.owned :], drop=True)
        if not typed:
            read_rows(shard.path / self.parts.manifest.node_tables["x"].files[0], rows[: shard.owned], drop=True)
            return scaled_like(self.everywhere, DenseFeatures(rows))
        done = 0
        for block in self._typed_blocks(shard.part):
            rows[done : done + len(block)] = block
            done += len(block)
        return DenseFeatures(rows)

    def _stored_blocks(self, owner: int) -> Iterator[NDArray[Any]]:
        """A part's own rows as they are stored, to be scaled by whoever reads them."""
        table = self.parts.manifest.node_tables["x"]
        return row_blocks_of(self.parts.path / shard_name(owner) / table.files[0], math.prod(table.shape[1:]), drop=True)

    def _typed_blocks(self, owner: int) -> Iterator[NDArray[np.float32]]:
        """A part's own rows as models read them, scaled: how depends on the type."""
        first, last = self.parts.offsets[owner : owner + 2]
        size = max(1, _BLOCK_BYTES // (4 * self.everywhere.width))
        for start in range(int(first), int(last), size):
            yield self.everywhere.rows(np.arange(start, min(start + size, int(last))))


def open_part_features(parts: Parts, request: SourceRequest, training: NDArray[np.int64]) -> PartFeatures:
    """The features of all parts, scaled by what the training nodes hold, whose global ids these are."""
    shards = [parts.shard(part) for part in range(len(parts))]
    raw = joined_features([shard_features(shard, request.by_type) for shard in shards])
    if isinstance(raw, TypedFeatures):
        return PartFeatures(parts, raw.scaled(request.normalize, training, lambda values: values))
    return PartFeatures(parts, normalized(raw, request.normalize, training))
