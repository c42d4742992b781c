"""Small graph directories with features, labels and splits, made from arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from starling.core.manifest import EdgeCounts, GraphManifest, Labels, Table
from starling.store.graph import Graph, open_graph

Kind = Literal["single", "multi", "real"]


def trainable_graph(
    path: Path,
    *,
    kind: Kind = "single",
    nodes: int = 60,
    features: int = 8,
    classes: int = 3,
    seed: int = 0,
    edges: int | NDArray[Any] = 300,
    edge_tables: dict[str, NDArray[Any]] | None = None,
    without: tuple[str, ...] = (),
    **changed: NDArray[Any],
) -> Graph:
    """A random undirected graph whose labels show in its features; `changed` and `without` replace or leave out tables.

    `edges` are how many, or which, each of them there and back.
    """
    draw = np.random.default_rng(seed)
    half = draw.integers(0, nodes, (edges // 2, 2)) if isinstance(edges, int) else edges
    pairs = np.stack([half, half[:, ::-1]], 1).reshape(-1, 2).astype(np.int32)
    y = draw.integers(0, classes, nodes)
    x = draw.normal(size=(nodes, features)).astype(np.float32)
    x[np.arange(nodes), y] += 2
    labels: NDArray[Any] = y
    if kind == "multi":
        labels = (x[:, :classes] > 1).astype(np.uint8)
    elif kind == "real":
        labels = x[:, :2].sum(1).astype(np.float32)
    place = np.arange(nodes) % 10
    tables: dict[str, NDArray[Any]] = {
        "x": x,
        "y": labels,
        "train": place < 6,
        "val": (place >= 6) & (place < 8),
        "test": place >= 8,
    }
    tables = {name: table for name, table in (tables | changed).items() if name not in without}
    path.mkdir(parents=True)
    np.save(path / "edges.npy", pairs)
    for name, table in tables.items():
        np.save(path / f"{name}.npy", table)
    for name, table in (edge_tables or {}).items():
        np.save(path / f"edge.{name}.npy", table)
    GraphManifest(
        nodes=nodes,
        edges=len(pairs),
        directed=False,
        node_tables={name: _table(f"{name}.npy", table) for name, table in tables.items()},
        edge_tables={name: _table(f"edge.{name}.npy", table) for name, table in (edge_tables or {}).items()},
        labels=Labels(kind=kind, classes=0 if kind == "real" else classes, labelled=nodes) if "y" in tables else None,
        splits={name: int(tables[name].sum()) for name in ("train", "val", "test") if name in tables},
        counts=EdgeCounts(read=len(pairs), self_loops=0),
    ).seal(path)
    return open_graph(path)


def _table(file: str, values: NDArray[Any]) -> Table:
    return Table(layout="dense", dtype=str(values.dtype), shape=values.shape, files=(file,))
