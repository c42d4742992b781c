"""The real graphs that partitioning benchmarks run on: .npz files with `edge_index` [2, E] and `num_nodes`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from starling.stream.edges import EdgesInMemory

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def names(folder: Path = DATA) -> list[str]:
    """Every graph of the folder, the smallest file first."""
    return [path.stem for path in sorted(folder.glob("*.npz"), key=lambda path: path.stat().st_size)]


def load(name: str, folder: Path = DATA) -> EdgesInMemory:
    """A graph made undirected, in the order given: as stored where both directions are, else each edge before its reverse."""
    with np.load(folder / f"{name}.npz") as file:
        pairs, nodes = file["edge_index"].T.astype(np.int64), int(file["num_nodes"])
    there, back = pairs[:, 0] * nodes + pairs[:, 1], pairs[:, 1] * nodes + pairs[:, 0]
    if not np.isin(back, there).all():
        first = np.sort(np.unique(np.minimum(there, back), return_index=True)[1])
        pairs = pairs[first]
        both = np.stack([pairs, pairs[:, ::-1]], axis=1).reshape(-1, 2)
        reverse_of_loop = np.repeat(pairs[:, 0] == pairs[:, 1], 2) & (np.arange(len(both)) % 2 == 1)
        pairs = both[~reverse_of_loop]
    return EdgesInMemory(np.ascontiguousarray(pairs, np.int32), nodes, directed=False)
