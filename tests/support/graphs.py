"""Graph directories and assignments made straight from arrays, for tests of what reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.assignment import Assignment, save_assignment
from starling.core.manifest import EdgeCounts, GraphManifest, Table
from starling.store.graph import Graph, open_graph

Csr = tuple[NDArray[Any], NDArray[Any], NDArray[Any], int]


def write_graph(
    path: Path,
    pairs: NDArray[Any],
    nodes: int,
    *,
    directed: bool = True,
    node_tables: dict[str, NDArray[Any] | Csr] | None = None,
    edge_tables: dict[str, NDArray[Any]] | None = None,
    node_types: tuple[str, ...] = (),
    edge_types: tuple[str, ...] = (),
) -> Graph:
    """A graph directory. A sparse table is (offsets, columns, values, width); ``x@paper`` is a table of the type 'paper'."""
    path.mkdir(parents=True)
    np.save(path / "edges.npy", pairs.astype(np.int32).reshape(-1, 2))
    tables = {name: _write_table(path, name, values) for name, values in (node_tables or {}).items()}
    edge = {}
    for name, values in (edge_tables or {}).items():
        np.save(path / f"{name}.edge.npy", values)
        edge[name] = Table(layout="dense", dtype=str(values.dtype), shape=values.shape, files=(f"{name}.edge.npy",))
    GraphManifest(
        nodes=nodes,
        edges=len(pairs),
        directed=directed,
        node_types=node_types,
        edge_types=edge_types,
        node_tables=tables,
        edge_tables=edge,
        splits={
            name: int(values.sum())
            for name, values in (node_tables or {}).items()
            if name in ("train", "val", "test") and not isinstance(values, tuple)
        },
        counts=EdgeCounts(read=len(pairs), self_loops=int((pairs[:, 0] == pairs[:, 1]).sum()) if len(pairs) else 0),
    ).seal(path)
    return open_graph(path)


def _write_table(path: Path, name: str, values: NDArray[Any] | Csr) -> Table:
    of_type = name.partition("@")[2] or None
    if isinstance(values, tuple):
        offsets, columns, data, width = values
        files = tuple(f"{name}.{part}.npy" for part in ("indptr", "indices", "data"))
        for file, array in zip(files, (offsets, columns, data), strict=True):
            np.save(path / file, array)
        shape = (len(offsets) - 1, width)
        return Table(layout="csr", dtype=str(data.dtype), shape=shape, files=files, of_type=of_type)
    np.save(path / f"{name}.npy", values)
    return Table(layout="dense", dtype=str(values.dtype), shape=values.shape, files=(f"{name}.npy",), of_type=of_type)


def write_assignment(directory: Path, assignment: Assignment, edges: int) -> Path:
    """An assignment directory, as if method 'test' with seed 3 had made it."""
    directory.mkdir(parents=True)
    save_assignment(assignment, directory, edges=edges, method="test", seed=3, settings={"tolerance": 0.05})
    return directory
