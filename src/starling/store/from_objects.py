"""Other libraries' graphs, written as Starling graph directories: ``starling.from_pyg(data, "graph")`` and its like.

Each takes the object, where to write, and the options of an import (`direction`, `duplicates`, `split`, …), and returns the
opened graph. The libraries themselves are needed only as far as their objects are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starling.core.errors import InputError
from starling.store.graph import Graph, create_graph
from starling.stream.ingest import ImportOptions
from starling.stream.raw import RawGraph


def from_pyg(data: Any, path: Path | str, *, force: bool = False, **options: Any) -> Graph:
    """Write a PyG ``Data`` or ``HeteroData``."""
    from starling.stream.bridges.pyg import raw_from_pyg

    return _create(raw_from_pyg(data), path, force, options)


def from_dgl(graph: Any, path: Path | str, *, force: bool = False, **options: Any) -> Graph:
    """Write a DGL graph or heterograph."""
    from starling.stream.bridges.dgl import raw_from_dgl

    return _create(raw_from_dgl(graph), path, force, options)


def from_networkx(graph: Any, path: Path | str, *, force: bool = False, **options: Any) -> Graph:
    """Write a NetworkX graph; node names become user ids."""
    from starling.stream.bridges.networkx import raw_from_networkx

    return _create(raw_from_networkx(graph), path, force, options)


def from_scipy(matrix: Any, path: Path | str, *, force: bool = False, **options: Any) -> Graph:
    """Write a SciPy sparse adjacency matrix; entry (u, v) is the edge u → v."""
    from starling.stream.bridges.scipy import raw_from_scipy

    return _create(raw_from_scipy(matrix), path, force, options)


def from_ogb(dataset: Any, path: Path | str, *, force: bool = False, **options: Any) -> Graph:
    """Write an OGB dataset object (library-agnostic form) with its labels and split."""
    from starling.stream.bridges.ogb import raw_from_ogb

    return _create(raw_from_ogb(dataset), path, force, options)


def _create(raw: RawGraph, path: Path | str, force: bool, options: dict[str, Any]) -> Graph:
    unknown = sorted(set(options) - set(ImportOptions.model_fields))
    if unknown:
        raise InputError(f"Unknown option '{unknown[0]}'. Known: {', '.join(ImportOptions.model_fields)}.")
    return create_graph(raw, path, ImportOptions(**options), force=force)
