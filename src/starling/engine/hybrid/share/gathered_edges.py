"""All edges of a graph in imported order, put together by the first worker, block by block, in a file without a name.

For what must see the whole graph once, such as finding clusters: no worker holds all edges in memory, and none needs another's
shards on its disk. What the first worker finds is what one process finds, since the order of edges is the imported one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.team import Team
from starling.core.npy import NpyWriter
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.share.worker_graph import WorkerGraph
from starling.kernels.csr import index_type
from starling.stream.edges import EdgesOnDisk, EdgeStream

BLOCK = 1 << 21
"""Edges at a time: 32 bytes each in the first worker while they come."""


@contextmanager
def gathered_edges(graph: WorkerGraph, team: Team, calls: Calls) -> Iterator[EdgeStream | None]:
    """The whole graph's edges in worker 0, None elsewhere; every worker must enter. Costs 8 bytes an edge of temporary disk."""
    if team.rank != 0:
        for block in _blocks(graph, team, calls):
            assert block is None
        yield None
        return
    with tempfile.TemporaryFile() as file:  # it has no name, so that it ends with this process however that ends
        path = Path(f"/proc/self/fd/{file.fileno()}")
        with NpyWriter(path, index_type(graph.manifest.nodes), (2,)) as writer:
            for block in _blocks(graph, team, calls):
                assert block is not None
                writer.append(block)
        yield EdgesOnDisk(path, graph.manifest.nodes, directed=graph.manifest.directed or graph.kept is not None)


def _blocks(graph: WorkerGraph, team: Team, calls: Calls) -> Iterator[NDArray[Any] | None]:
    """Consecutive edges as pairs of positions, in worker 0."""
    lists, nobody = graph.incoming, np.empty(0, np.int64)
    by_number = np.argsort(lists.edge)
    for start in range(0, graph.manifest.edges, BLOCK):
        stop = min(start + BLOCK, graph.manifest.edges)
        entries = by_number[slice(*np.searchsorted(lists.edge, [start, stop], sorter=by_number))]
        rows = np.searchsorted(lists.offsets, entries, side="right") - 1
        sources = graph.position[lists.neighbours[entries]]
        mine = np.concatenate([lists.edge[entries] - start, sources, graph.position[rows]])
        told = team.swap_lists(calls.next_tag(), [mine if peer == 0 else nobody for peer in range(team.size)])
        yield _pairs(told, stop - start, index_type(graph.manifest.nodes)) if team.rank == 0 else None


def _pairs(told: list[NDArray[np.int64]], count: int, kind: type[Any]) -> NDArray[Any]:
    pairs = np.full((count, 2), -1, kind)
    for values in told:
        place, source, destination = values.reshape(3, -1)
        pairs[place, 0], pairs[place, 1] = source, destination
    return pairs[pairs[:, 0] >= 0]  # edges that the workers leave out are nobody's
