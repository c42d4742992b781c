"""Generated graphs, whole in memory, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.stream.raw import RawGraph


def drawn_edges(raw: RawGraph) -> NDArray[np.int64]:
    """All edges of a raw graph, [E, 2], as its reader gives them."""
    return np.concatenate([np.stack([block.source, block.destination], 1) for block in raw.edges.blocks()])


def drawn_columns(raw: RawGraph) -> dict[str, NDArray[Any]]:
    """All columns of a raw graph's only node table."""
    (table,) = raw.tables
    blocks = [rows.columns for rows in table.blocks()]
    return {name: np.concatenate([columns[name] for columns in blocks]) for name in blocks[0]}
