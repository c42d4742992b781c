"""The nodes a part uses but does not own, hop by hop, and their local numbers.

Local rows are the owned nodes, then the halo one hop away in ascending global id (and so grouped by owner), then two hops away,
and so on. A bit a node and hop is all that is kept (kernels/ranked_set.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.csr import index_type
from starling.kernels.parallel import parallel_for, worthwhile_threads
from starling.kernels.ranked_set import RankedSet, add, contains, rank_of
from starling.store.sharding.entries import node_of_row


class Halo:
    """Local numbers of the part that owns global ids first … stop − 1 of `nodes`."""

    def __init__(self, nodes: int, first: int, stop: int, *, hops: int = 1) -> None:
        self.nodes, self.first, self.stop = nodes, first, stop
        self._sets = [RankedSet(nodes) for _ in range(hops)]
        self._words = np.zeros((hops, len(self._sets[0].words) if hops else 1), np.uint64)
        self._before = np.zeros((hops, self._words.shape[1]), index_type(nodes))
        self._base = np.zeros(hops, np.int64)
        self.count = 0

    @property
    def owned(self) -> int:
        """How many nodes the part owns."""
        return self.stop - self.first

    def see(self, hop: int, nodes: NDArray[Any]) -> None:
        """Note that these nodes are used; those not owned and not in a nearer hop belong to this one."""
        _see(nodes, self.first, self.stop, self._words[:hop], self._sets[hop].words)

    def see_rows(self, codes: NDArray[Any]) -> None:
        """Note that a vertex-cut part has these rows."""
        _see_rows(codes, self.first, self.stop, self._sets[0].words)

    def finish(self, hop: int) -> NDArray[Any]:
        """Number the nodes of a hop, once all have been seen; gives them, ascending."""
        found = self._sets[hop]
        found.rank()
        self._words[hop], self._before[hop] = found.words, found.before
        self._base[hop] = self.owned + self.count
        self.count += found.count
        return found.members()

    def owned_mask(self, nodes: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of these nodes the part owns."""
        mask: NDArray[np.bool_] = (nodes >= self.first) & (nodes < self.stop)
        return mask

    def to_local(self, nodes: NDArray[Any], threads: int | None = None) -> NDArray[Any]:
        """Local rows of owned and finished halo nodes."""
        local = np.empty(len(nodes), index_type(self.owned + self.count))
        parallel_for(
            len(nodes),
            lambda start, stop: _to_local(
                nodes, self.first, self.stop, self._words, self._before, self._base, local, start, stop
            ),
            worthwhile_threads(len(nodes), threads),
        )
        return local

    def count_rows(self, codes: NDArray[Any], counts: NDArray[np.int64]) -> None:
        """Add one to the count of the local row of each row code."""
        _count_rows(codes, self.first, self.stop, self._words, self._before, self._base, counts)


@compiled
def _see(nodes: NDArray[Any], first: int, stop: int, nearer: NDArray[np.uint64], words: NDArray[np.uint64]) -> None:
    for i in range(len(nodes)):
        node = nodes[i]
        if first <= node < stop:
            continue
        known = False
        for hop in range(len(nearer)):
            known |= contains(nearer[hop], node)
        if not known:
            add(words, node)


@compiled
def _see_rows(codes: NDArray[Any], first: int, stop: int, words: NDArray[np.uint64]) -> None:
    for i in range(len(codes)):
        if codes[i] >= stop - first:
            add(words, node_of_row(codes[i], first, stop))


@compiled
def _local(node: int, first: int, stop: int, words: NDArray[np.uint64], before: NDArray[Any], base: NDArray[np.int64]) -> int:
    if first <= node < stop:
        return node - first
    for hop in range(len(words)):
        if contains(words[hop], node):
            return int(base[hop]) + rank_of(words[hop], before[hop], node)
    return -1


@compiled
def _to_local(
    nodes: NDArray[Any],
    first: int,
    stop: int,
    words: NDArray[np.uint64],
    before: NDArray[Any],
    base: NDArray[np.int64],
    local: NDArray[Any],
    begin: int,
    end: int,
) -> None:
    for i in range(begin, end):
        local[i] = _local(nodes[i], first, stop, words, before, base)


@compiled
def _count_rows(
    codes: NDArray[Any],
    first: int,
    stop: int,
    words: NDArray[np.uint64],
    before: NDArray[Any],
    base: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    for i in range(len(codes)):
        counts[_local(node_of_row(codes[i], first, stop), first, stop, words, before, base)] += 1
