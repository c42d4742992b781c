"""Counting copies of nodes: a bit for each node and part, set as edges stream by.

`sets` stands for parts base … base + 64 × words − 1; what falls in other parts is for another pass.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.machine import prefetch
from starling.kernels.partition.clustering import AHEAD
from starling.kernels.partition.replicas import add, fetch_ends


@compiled
def mark_owners(owner: NDArray[np.int32], base: int, sets: NDArray[np.uint64]) -> None:
    """Each node has a copy at its owner."""
    parts = 64 * sets.shape[1]
    for node in range(len(owner)):
        part = owner[node] - base
        if 0 <= part < parts:
            add(sets, node, part)


@compiled
def mark_halo(pairs: NDArray[np.int32], owner: NDArray[np.int32], base: int, sets: NDArray[np.uint64]) -> None:
    """A source has a copy where its destination is owned."""
    parts = 64 * sets.shape[1]
    for i in range(len(pairs)):
        ahead = min(i + AHEAD, len(pairs) - 1)
        prefetch(sets, np.int64(pairs[ahead, 0]) * sets.shape[1])
        prefetch(owner, np.int64(pairs[ahead, 1]))
        part = owner[pairs[i, 1]] - base
        if 0 <= part < parts:
            add(sets, pairs[i, 0], part)


@compiled
def mark_replicas(pairs: NDArray[np.int32], placed: NDArray[np.uint16], base: int, sets: NDArray[np.uint64]) -> None:
    """Both ends have a copy where the edge is placed."""
    parts = 64 * sets.shape[1]
    for i in range(len(pairs)):
        fetch_ends(pairs, i, sets, sets.shape[1])
        part = np.int64(placed[i]) - base
        if 0 <= part < parts:
            add(sets, pairs[i, 0], part)
            add(sets, pairs[i, 1], part)


@compiled
def count_copies(sets: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many nodes have a copy in each part [64 × words]."""
    copies = np.zeros(64 * sets.shape[1], np.int64)
    for node in range(len(sets)):
        for column in range(sets.shape[1]):
            word, part = sets[node, column], 64 * column
            while word:
                copies[part] += np.int64(word & np.uint64(1))
                word >>= np.uint64(1)
                part += 1
    return copies


@compiled
def count_cut(pairs: NDArray[np.int32], owner: NDArray[np.int32], held: NDArray[np.int64]) -> int:
    """How many edges have ends of different owners; counts each edge in `held` [p] with its destination's owner."""
    cut = 0
    for i in range(len(pairs)):
        at = owner[pairs[i, 1]]
        held[at] += 1
        cut += owner[pairs[i, 0]] != at
    return cut


@compiled
def spread_copies(pairs: NDArray[np.int32], nearer: NDArray[np.uint64], sets: NDArray[np.uint64]) -> None:
    """A source has a copy wherever its destination had one a hop before."""
    for i in range(len(pairs)):
        for column in range(sets.shape[1]):
            sets[pairs[i, 0], column] |= nearer[pairs[i, 1], column]


@compiled
def count_edges_of_rows(pairs: NDArray[np.int32], sets: NDArray[np.uint64], held: NDArray[np.int64]) -> None:
    """Count each edge in `held` [64 × words] for every part in which its destination has a copy."""
    for i in range(len(pairs)):
        for column in range(sets.shape[1]):
            word, part = sets[pairs[i, 1], column], 64 * column
            while word:
                held[part] += np.int64(word & np.uint64(1))
                word >>= np.uint64(1)
                part += 1
