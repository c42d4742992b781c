"""Random adjacencies for kernel tests, with a hub that is cut into pieces."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from starling.kernels.adjacency import HUB_EDGES, Adjacency, adjacency


def make(rows: int, columns: int, edges: int, seed: int, hub: bool = False) -> Adjacency:
    generator = np.random.default_rng(seed)
    degree = generator.multinomial(edges, generator.dirichlet(np.full(rows, 0.5))) if rows else np.zeros(0, int)
    if hub and rows:
        degree[rows // 2] += HUB_EDGES + 9000  # four pieces, the last one short
    offsets = np.concatenate([[0], np.cumsum(degree)]).astype(np.int64)
    return adjacency(offsets, generator.integers(0, max(columns, 1), offsets[-1]).astype(np.int32), columns)


adjacencies = st.builds(
    make,
    rows=st.integers(1, 12),
    columns=st.integers(1, 12),
    edges=st.integers(0, 60),
    seed=st.integers(0, 2**20),
    hub=st.sampled_from([False, False, False, True]),
)


def edge_rows(edges: Adjacency) -> np.ndarray:
    """The row of every entry."""
    return np.repeat(np.arange(edges.rows), np.diff(edges.offsets))
