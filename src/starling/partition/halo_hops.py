"""How large the parts of an edge-cut get with any number of halo hops, counted exactly without building them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from starling.core.assignment import Assignment
from starling.core.progress import SILENT, Progress
from starling.kernels.partition.quality import count_copies, count_edges_of_rows, mark_owners, spread_copies
from starling.partition.passes import edge_blocks
from starling.stream.edges import EdgeStream


@dataclass(frozen=True)
class PartSizes:
    """What each part holds: nodes of its halo, all hops together, and edges."""

    halo: tuple[int, ...]
    edges: tuple[int, ...]


def sizes_with_hops(
    edges: EdgeStream, assignment: Assignment, hops: int, *, memory: int = 1 << 30, progress: Progress = SILENT
) -> PartSizes:
    """Halo and edges of every part with `hops` hops of neighbours kept; of 0 hops, edges from elsewhere are counted in.

    A pass a hop, for as many parts at a time as keep V × parts / 4 bytes of copy bits within half the memory.
    """
    nodes, parts = edges.nodes, assignment.parts
    words = max(1, min((parts + 63) // 64, memory // 4 // (8 * max(nodes, 1))))
    halo, held = np.zeros(0, np.int64), np.zeros(0, np.int64)
    owned = np.bincount(assignment.owner, minlength=parts)
    for base in range(0, parts, 64 * words):
        sets = np.zeros((nodes, words), np.uint64)
        mark_owners(assignment.owner, base, sets)
        entries = np.zeros(64 * words, np.int64)
        for hop in range(max(1, hops)):
            nearer = sets.copy()
            for pairs in edge_blocks(edges, "counting halos", progress):
                if hop == max(1, hops) - 1:
                    count_edges_of_rows(pairs, nearer, entries)
                if hops:
                    spread_copies(pairs, nearer, sets)
        halo, held = np.concatenate([halo, count_copies(sets)]), np.concatenate([held, entries])
    return PartSizes(tuple((halo[:parts] - owned).tolist()), tuple(held[:parts].tolist()))
