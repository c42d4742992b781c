"""2PS-L's second phase: edges inside one part's clusters first, then each other edge to one of two parts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw_below
from starling.kernels.partition.clustering import CLUSTER, DEGREE, fetch_clusters
from starling.kernels.partition.replicas import add, fetch_ends, holds

PART = 2
"""Column of a node's row: the part that its cluster was packed into."""

_UNDECIDED = 65535


@compiled
def place_inner(
    pairs: NDArray[np.int32],
    rows: NDArray[np.int32],
    sets: NDArray[np.uint64],
    load: NDArray[np.int64],
    room: int,
    key: np.uint64,
    placed: NDArray[np.uint16],
) -> None:
    """Place the edges whose ends' clusters are in one part; mark the others undecided."""
    for i in range(len(pairs)):
        fetch_ends(pairs, i, rows, rows.shape[1])
        fetch_ends(pairs, i, sets, sets.shape[1])
        u, v = pairs[i, 0], pairs[i, 1]
        part = rows[u, PART]
        placed[i] = _put(u, v, part, rows, sets, load, room, key) if part == rows[v, PART] else _UNDECIDED


@compiled
def place_outer(
    pairs: NDArray[np.int32],
    rows: NDArray[np.int32],
    volume: NDArray[np.integer],
    sets: NDArray[np.uint64],
    load: NDArray[np.int64],
    room: int,
    key: np.uint64,
    placed: NDArray[np.uint16],
) -> None:
    """Place the edges still undecided: of the two clusters' parts, the one with the better score."""
    for i in range(len(pairs)):
        fetch_clusters(pairs, i, rows, volume)
        fetch_ends(pairs, i, sets, sets.shape[1])
        if placed[i] == _UNDECIDED:
            u, v = pairs[i, 0], pairs[i, 1]
            placed[i] = _put(u, v, _better(u, v, rows, volume, sets), rows, sets, load, room, key)


@compiled
def _better(u: int, v: int, rows: NDArray[np.int32], volume: NDArray[np.integer], sets: NDArray[np.uint64]) -> int:
    """The part of u's cluster or of v's: g(u) + g(v) + that cluster's share of the two volumes; of equals, u's."""
    of_u, of_v = float(volume[rows[u, CLUSTER]]), float(volume[rows[v, CLUSTER]])
    share_u = rows[u, DEGREE] / (rows[u, DEGREE] + rows[v, DEGREE])
    score_u, score_v = of_u / (of_u + of_v), of_v / (of_u + of_v)
    at_u, at_v = rows[u, PART], rows[v, PART]
    if holds(sets, u, at_u):
        score_u += 2.0 - share_u  # g(u) = 1 + (1 − d_u / (d_u + d_v))
    if holds(sets, v, at_u):
        score_u += 1.0 + share_u
    if holds(sets, u, at_v):
        score_v += 2.0 - share_u
    if holds(sets, v, at_v):
        score_v += 1.0 + share_u
    return int(at_u if score_u >= score_v else at_v)


@compiled
def _put(
    u: int,
    v: int,
    part: int,
    rows: NDArray[np.int32],
    sets: NDArray[np.uint64],
    load: NDArray[np.int64],
    room: int,
    key: np.uint64,
) -> int:
    """Add the edge to the part; if that is full, to where the end of higher degree hashes; else to the least loaded."""
    where = np.int64(part)
    if load[where] >= room:
        where = np.int64(draw_below(key, u if rows[u, DEGREE] >= rows[v, DEGREE] else v, 0, len(load)))
        if load[where] >= room:
            where = np.int64(np.argmin(load))
    load[where] += 1
    add(sets, u, where)
    add(sets, v, where)
    return int(where)
