"""A whole graph on disk: create it from anything that can be read, open it without loading it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.artifact import staged
from starling.core.errors import InputError, nearest
from starling.core.manifest import GraphManifest, Table
from starling.core.npy import map_array
from starling.core.progress import SILENT, Progress
from starling.stream.edges import EdgesOnDisk
from starling.stream.id_index import IdIndex
from starling.stream.ingest import ImportOptions, ingest
from starling.stream.raw import RawGraph

EDGES = "edges.npy"


@dataclass(frozen=True)
class CsrTable:
    """A sparse node table: row i has `values[k]` in column `columns[k]` for k in offsets[i] … offsets[i + 1] − 1."""

    offsets: NDArray[Any]
    columns: NDArray[Any]
    values: NDArray[Any]
    shape: tuple[int, ...]

    def dense(self, rows: NDArray[Any] | slice) -> NDArray[np.float32]:
        """The chosen rows with their zeros."""
        wanted = np.arange(*rows.indices(self.shape[0])) if isinstance(rows, slice) else np.asarray(rows)
        out = np.zeros((len(wanted), self.shape[1]), np.float32)
        lengths = self.offsets[wanted + 1] - self.offsets[wanted]
        row = np.repeat(np.arange(len(wanted)), lengths)
        entry = np.repeat(self.offsets[wanted] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(len(row))
        out[row, self.columns[entry]] = self.values[entry]
        return out


@dataclass(frozen=True)
class Graph:
    """An opened graph directory. Arrays are memory-mapped when asked for, so opening costs nothing."""

    path: Path
    manifest: GraphManifest

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.manifest.nodes

    @cached_property
    def edges(self) -> NDArray[Any]:
        """All edges, [E, 2] source and destination, in imported order."""
        return map_array(self.path / EDGES)

    def edge_stream(self) -> EdgesOnDisk:
        """The edges as a stream of blocks that are read, not mapped."""
        return EdgesOnDisk(self.path / EDGES, self.manifest.nodes, directed=self.manifest.directed)

    def node_table(self, name: str) -> NDArray[Any] | CsrTable:
        """A node table: an array with a row per node, or a sparse one."""
        return self._table(name, self.manifest.node_tables, "node")

    def edge_table(self, name: str) -> NDArray[Any] | CsrTable:
        """An edge table, a row per edge of `edges`."""
        return self._table(name, self.manifest.edge_tables, "edge")

    @cached_property
    def ids(self) -> IdIndex:
        """The user's ids: positions from ids, ids from positions."""
        return IdIndex(self.path, self.manifest.ids, self.manifest.nodes)

    def _table(self, name: str, tables: dict[str, Table], kind: str) -> NDArray[Any] | CsrTable:
        if name not in tables:
            raise InputError(f"{self.path} has no {kind} table '{name}'. {nearest(name, tables)}")
        return open_table(tables[name], self.path)


def open_table(table: Table, directory: Path) -> NDArray[Any] | CsrTable:
    """The arrays of a table, memory-mapped."""
    arrays = [map_array(directory / file) for file in table.files]
    return arrays[0] if table.layout == "dense" else CsrTable(arrays[0], arrays[1], arrays[2], table.shape)


def open_graph(path: Path | str) -> Graph:
    """Open a graph directory; refuses one with missing or truncated files."""
    path = Path(path)
    manifest = GraphManifest.read(path)
    manifest.check_sizes(path)
    return Graph(path, manifest)


def create_graph(
    raw: RawGraph, path: Path | str, options: ImportOptions | None = None, *, force: bool = False, progress: Progress = SILENT
) -> Graph:
    """Read a graph from wherever it comes and write it as a directory, whole or not at all."""
    path = Path(path)
    with staged(path, force=force) as staging:
        manifest = ingest(raw, options or ImportOptions(), staging, progress)
        shutil.rmtree(staging / "scratch", ignore_errors=True)
        manifest.seal(staging)
    return open_graph(path)
