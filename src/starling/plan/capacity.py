"""How much memory a worker needs for its part, and the fewest parts that fit (CATGNN §3.2).

    structure   the CSR of in-edges and its transpose: 16 bytes an edge, 8 an offset
    tables      the owned rows of every table, and the halo's features
    working set (3·N + H)·d floats a layer, the formula of partition parallelism (BDS-GCN §3), d the hidden width
    base        an interpreter with torch, measured at 350 MiB, rounded up

The halo is known only once the graph is cut, so the first guess takes no halo and the answer is checked on the real cut.
"""

from __future__ import annotations

import math

import numpy as np

from starling.core.errors import InputError
from starling.core.manifest import GraphManifest, Table
from starling.core.memory import format_bytes

_BASE_BYTES = 400 << 20
_MOST_AUTOMATIC_PARTS = 4096


def worker_bytes(graph: GraphManifest, nodes: int, halo: int, edges: int, *, hidden: int = 128, layers: int = 2) -> int:
    """Memory to train on a part of `nodes` owned nodes, `halo` others and `edges` edges."""
    structure = 16 * edges + 8 * (2 * nodes + halo)
    node_rows = sum(_row_bytes(table) for table in graph.node_tables.values()) * nodes
    edge_rows = sum(_row_bytes(table) for table in graph.edge_tables.values()) * edges
    halo_rows = sum(_row_bytes(table) for name, table in graph.node_tables.items() if name.partition("@")[0] == "x") * halo
    working = layers * (3 * nodes + halo) * hidden * 4
    return int(_BASE_BYTES + structure + node_rows + edge_rows + halo_rows + working)


def fewest_parts(graph: GraphManifest, worker_memory: int) -> int:
    """The smallest p whose parts would fit if they had no halo: where the search for the real p begins."""
    if worker_memory <= _BASE_BYTES:
        raise InputError(
            f"Expected --worker-memory above {format_bytes(_BASE_BYTES)}, which an empty worker takes, "
            f"got {format_bytes(worker_memory)}."
        )
    whole = worker_bytes(graph, graph.nodes, 0, graph.edges) - _BASE_BYTES
    return min(max(1, math.ceil(whole / (worker_memory - _BASE_BYTES))), max(1, graph.nodes))


def more_parts(parts: int, needed: int, worker_memory: int) -> int:
    """The next p to try when the largest of `parts` parts needs more than a worker has."""
    scale = (needed - _BASE_BYTES) / (worker_memory - _BASE_BYTES)
    bigger = max(parts + 1, math.ceil(parts * scale))
    if bigger > _MOST_AUTOMATIC_PARTS:
        raise InputError(
            f"No number of parts up to {_MOST_AUTOMATIC_PARTS:,} fits a worker of {format_bytes(worker_memory)}. Give more "
            "--worker-memory, or choose the number of parts yourself with -p."
        )
    return bigger


def _row_bytes(table: Table) -> float:
    """Bytes of one row; a sparse table counts as the dense rows that training makes of it."""
    return float(np.dtype(table.dtype).itemsize * math.prod(table.shape[1:]))
