"""The in-edges of one part: sorted entries become local neighbour lists, and the halo is found on the way.

With `halo_hops` k the rows are the owned nodes and the halo up to k − 1 hops away, so that k layers can be computed without
asking anybody; k = 0 drops every edge from another part. A vertex-cut has a row for every local node, mirrors included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.assignment import CutKind
from starling.core.npy import NpyReader, NpyWriter, save_array
from starling.kernels.csr import index_type
from starling.store.shard_layout import EDGE_TABLES, IN_EDGE, IN_NEIGHBOURS, IN_OFFSETS
from starling.store.sharding.entries import EDGE, ROW, SOURCE, Entries, table_column
from starling.store.sharding.entry_ranges import read_ranges
from starling.store.sharding.halo import Halo
from starling.store.sharding.node_order import NodeOrder
from starling.store.sharding.survey import Survey


@dataclass(frozen=True)
class InEdges:
    """What was found while a part's in-edges were written: halo nodes by hop, row offsets, edges dropped."""

    halo: tuple[NDArray[Any], ...]
    offsets: NDArray[np.int64]
    dropped: int


class InEdgesWriter:
    """Writes the ``in.*`` files and edge tables of one shard after another."""

    def __init__(
        self, order: NodeOrder, survey: Survey, entries: Entries, kind: CutKind, halo_hops: int, threads: int | None
    ) -> None:
        self._order, self._survey, self._entries, self._kind = order, survey, entries, kind
        self._hops, self._threads = halo_hops, threads

    def write(self, part: int, directory: Path, table_files: dict[str, str]) -> InEdges:
        """Write one part's in-edges into its shard directory; `table_files` names the file of each edge table."""
        first, stop = self._order.offsets[part : part + 2].tolist()
        halo = Halo(self._order.nodes, first, stop, hops=self._hops)
        found = self._find_halo(part, halo)
        offsets = self._row_offsets(part, halo, found)
        save_array(directory / IN_OFFSETS, offsets)
        row_nodes = found[: max(self._hops - 1, 0)]
        with NpyWriter(directory / IN_NEIGHBOURS, index_type(halo.owned + halo.count)) as writer:
            for sources in self._blocks(SOURCE, part, halo, row_nodes):
                writer.append(halo.to_local(sources, self._threads))
        (directory / EDGE_TABLES).mkdir()
        targets = {EDGE: directory / IN_EDGE}
        targets |= {table_column(name): directory / file for name, file in table_files.items()}
        for name, target in targets.items():
            self._write_column(name, part, target, halo, row_nodes)
        given = int(self._entries.bounds[part + 1] - self._entries.bounds[part])
        return InEdges(found, offsets, dropped=given - int(offsets[-1]) if self._hops == 0 else 0)

    def _find_halo(self, part: int, halo: Halo) -> tuple[NDArray[Any], ...]:
        found: list[NDArray[Any]] = []
        for hop in range(self._hops):
            blocks = self._gather(SOURCE, found[-1]) if hop else self._entries.blocks(SOURCE, part)
            for sources in blocks:
                halo.see(hop, sources)
            if self._kind == "vertex-cut":
                for codes in self._entries.blocks(ROW, part):
                    halo.see_rows(codes)
            found.append(halo.finish(hop))
        return tuple(found)

    def _row_offsets(self, part: int, halo: Halo, found: tuple[NDArray[Any], ...]) -> NDArray[np.int64]:
        if self._kind == "vertex-cut":
            counts = np.zeros(halo.owned + halo.count, np.int64)
            for codes in self._entries.blocks(ROW, part):
                halo.count_rows(codes, counts)
            return _offsets(counts)
        in_degree, position = self._survey.in_degree, self._order.position_of_global
        degrees = in_degree[self._order.positions(part)]
        if self._hops == 0:
            return self._inner_offsets(part, halo, _offsets(degrees))
        return _offsets(np.concatenate([degrees, *(in_degree[position[nodes]] for nodes in found[: self._hops - 1])]))

    def _inner_offsets(self, part: int, halo: Halo, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row offsets when only edges inside the part count."""
        kept = np.zeros_like(offsets)
        start = total = 0
        for sources in self._entries.blocks(SOURCE, part):
            before = np.concatenate([[0], np.cumsum(halo.owned_mask(sources))])
            rows = slice(*np.searchsorted(offsets, [start, start + len(sources)], side="right"))
            kept[rows] = total + before[offsets[rows] - start]
            start, total = start + len(sources), total + int(before[-1])
        return kept

    def _write_column(self, name: str, part: int, target: Path, halo: Halo, row_nodes: tuple[NDArray[Any], ...]) -> None:
        if self._hops == 1:
            self._entries.path(name, part).rename(target)  # the rows of the shard are the rows of the entries
            return
        reader = NpyReader(self._entries.path(name, part))
        with NpyWriter(target, reader.dtype, reader.shape[1:]) as writer:
            for block in self._blocks(name, part, halo, row_nodes):
                writer.append(block)

    def _blocks(self, name: str, part: int, halo: Halo, row_nodes: tuple[NDArray[Any], ...]) -> Iterator[NDArray[Any]]:
        """One column of all entries the shard keeps, in the order of its rows."""
        if self._hops == 0:
            for values, sources in zip(self._entries.blocks(name, part), self._entries.blocks(SOURCE, part), strict=True):
                yield values[halo.owned_mask(sources)]
            return
        yield from self._entries.blocks(name, part)
        for nodes in row_nodes:
            yield from self._gather(name, nodes)

    def _gather(self, name: str, nodes: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """One column of the in-edges of nodes that other parts own, ascending."""
        bounds = np.searchsorted(nodes, self._order.offsets)
        for part in np.flatnonzero(np.diff(bounds)).tolist():
            rows = nodes[bounds[part] : bounds[part + 1]] - self._order.offsets[part]
            offsets = _offsets(self._survey.in_degree[self._order.positions(part)])
            yield from read_ranges(NpyReader(self._entries.path(name, part)), offsets[rows], offsets[rows + 1])


def _offsets(counts: NDArray[Any]) -> NDArray[np.int64]:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets
