"""Small graphs whose edges can be predicted: nodes of one group are linked, and features tell groups apart, if dimly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.store.graph import Graph
from tests.support.graphs import write_graph


def grouped_pairs(nodes: int, edges: int, groups: int, seed: int = 0) -> NDArray[Any]:
    """Random pairs of different nodes, nine in ten inside a group, each once."""
    draw = np.random.default_rng(seed)
    pairs = draw.integers(0, nodes, (8 * edges, 2))
    inside = (pairs[:, 0] % groups == pairs[:, 1] % groups) | (draw.random(len(pairs)) < 0.1 / groups)
    pairs = np.sort(pairs[inside & (pairs[:, 0] != pairs[:, 1])], axis=1)
    pairs = np.unique(pairs, axis=0)
    return pairs[draw.permutation(len(pairs))[:edges]]


def link_graph(
    path: Path,
    *,
    nodes: int = 60,
    edges: int = 150,
    groups: int = 4,
    directed: bool = False,
    features: int = 8,
    edge_tables: dict[str, NDArray[Any]] | None = None,
    pairs: NDArray[Any] | None = None,
) -> Graph:
    """A graph directory; an undirected one has both directions side by side, and tables with a row for each."""
    draw = np.random.default_rng(7)
    pairs = grouped_pairs(nodes, edges, groups) if pairs is None else pairs
    if not directed:
        pairs = np.stack([pairs, pairs[:, ::-1]], 1).reshape(-1, 2)
    x = draw.normal(size=(nodes, features)).astype(np.float32)
    if features:
        x[np.arange(nodes), np.arange(nodes) % groups] += 1.5
    return write_graph(
        path, pairs, nodes, directed=directed, node_tables={"x": x} if features else {}, edge_tables=edge_tables or {}
    )
