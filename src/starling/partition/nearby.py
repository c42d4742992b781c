"""Sub-parts: an order of the nodes inside each part that METIS cut, so that ranges of it are cheap to tear apart.

The nodes of a part stand in little groups that stay whole (flocks, or nodes themselves). The graph of the groups, with the edges
inside the part, is cut into `sub_parts` by recursive bisection, whose numbers are near one another where sub-parts are; the
groups are then numbered by sub-part, and inside one as they were. Two passes over the edges, more where the ties of all parts do
not fit; of a part whose ties do not fit the budget, a random share of its edges is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.keyed import stream_key
from starling.core.progress import SILENT, Progress
from starling.kernels.partition.nearby import inner_ties, number_groups, weigh_nodes
from starling.kernels.radix import stable_order
from starling.partition.metis_call import cut_by_metis
from starling.partition.passes import edge_blocks, pass_bytes
from starling.stream.edges import EdgeStream

LARGEST_GROUP = 64
"""Nodes up to which a group stays whole; larger ones are for METIS to cut."""

_BYTES_PER_NODE = 28
_TIE_BYTES = 280  # METIS's 100 bytes for each direction, and the sorting before it
_FEWEST_GROUPS = 4  # for each sub-part; with fewer there is nothing to choose


def ties_that_fit(edges: EdgeStream, memory: int) -> int:
    """How many ties of one part METIS may have."""
    return max(1 << 14, (memory - _BYTES_PER_NODE * edges.nodes - pass_bytes(edges)) // 2 // _TIE_BYTES)


def number_sub_parts(
    edges: EdgeStream,
    owner: NDArray[np.int32],
    parts: int,
    mark: NDArray[np.int32],
    sub_parts: int,
    *,
    memory: int = 1 << 30,
    seed: int = 0,
    progress: Progress = SILENT,
) -> NDArray[np.int32]:
    """A locality [V] whose order makes cheap sub-parts; nodes of one part with one `mark` (at least 0) stay together."""
    order = stable_order(owner, parts - 1, stable_order(mark, int(mark.max(initial=0)))).astype(np.int32, copy=False)
    group = np.empty(len(owner), np.int32)
    groups = number_groups(order, owner, mark, group)
    first = np.searchsorted(owner[order], np.arange(parts + 1))  # places at which parts begin
    bounds = np.append(group[order], groups)[first]
    del order
    mass, inner = np.ones(len(owner), np.int32), np.zeros(parts, np.int64)
    for pairs in edge_blocks(edges, "weighing groups", progress):
        weigh_nodes(pairs, owner, mass, inner)
    weight = _by_group(mass, group, groups)
    del mass
    rank = np.arange(groups, dtype=np.int32)
    most = ties_that_fit(edges, memory)
    share = np.minimum(1.0, most / np.maximum(inner, 1))
    for low, high in _ranges_of_parts(inner * share, _TIE_BYTES * most // 8):
        ties = _ties(edges, owner, group, low, high, share, seed, progress)
        for part in range(low, high):
            begin, end = int(bounds[part]), int(bounds[part + 1])
            mine = ties[(ties[:, 0] >= begin) & (ties[:, 0] < end)] - np.int32(begin)
            sub_part = _cut(mine, weight[begin:end], sub_parts, seed)
            if sub_part is not None:
                rank[begin + np.argsort(sub_part, kind="stable")] = np.arange(begin, end, dtype=np.int32)
    return rank[group]


def _by_group(mass: NDArray[np.int32], group: NDArray[np.int32], groups: int) -> NDArray[np.int64]:
    weight = np.zeros(groups, np.int64)
    for start in range(0, len(mass), 1 << 20):  # bincount makes wide copies of what it is given
        block = slice(start, start + (1 << 20))
        weight += np.bincount(group[block], mass[block], minlength=groups).astype(np.int64)
    return weight


def _ranges_of_parts(ties: NDArray[Any], room: int) -> Iterator[tuple[int, int]]:
    """Consecutive parts, as many at a time as have ties for `room`, at least one."""
    low, held = 0, 0.0
    for part, count in enumerate(ties.tolist()):
        if part > low and held + count > room:
            yield low, part
            low, held = part, 0.0
        held += count
    yield low, len(ties)


def _ties(
    edges: EdgeStream,
    owner: NDArray[np.int32],
    group: NDArray[np.int32],
    low: int,
    high: int,
    share: NDArray[np.float64],
    seed: int,
    progress: Progress,
) -> NDArray[np.int32]:
    """The groups at both ends of the edges inside these parts, or of a share of them."""
    found, start, key = [np.zeros((0, 2), np.int32)], 0, stream_key(seed, "partition/sub-parts")
    for pairs in edge_blocks(edges, "gathering ties", progress):
        ties = np.empty((len(pairs), 2), np.int32)
        count = inner_ties(pairs, start, owner, group, low, high, share, key, ties)
        found.append(ties[:count].copy())
        start += len(pairs)
    return np.concatenate(found)


def _cut(ties: NDArray[np.int32], weight: NDArray[np.int64], sub_parts: int, seed: int) -> NDArray[np.int32] | None:
    """A sub-part for each group of one part, or None where there is nothing to choose."""
    groups = len(weight)
    if groups < _FEWEST_GROUPS * sub_parts or len(ties) == 0:
        return None
    keys = np.concatenate([ties[:, 0] * np.int64(groups) + ties[:, 1], ties[:, 1] * np.int64(groups) + ties[:, 0]])
    keys, value = np.unique(keys, return_counts=True)
    return cut_by_metis(
        sub_parts,
        np.searchsorted(keys, np.arange(groups + 1, dtype=np.int64) * groups),
        keys % groups,
        what="the inside of a part",
        instead="lower --memory, by which it gets a smaller graph, or leave out --sub-parts",
        seed=seed,
        node_weight=weight,
        edge_weight=value,
        recursive=True,
    )
