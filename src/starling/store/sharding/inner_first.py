"""Nodes with neighbours in other parts are numbered last in their sub-part, so that all others make up whole blocks of rows.

A node *hears* of a part from which an edge comes to it, and is *heard* of in a part to which one goes. The others are inner nodes:
their rows can be computed while messages fly (CM-GCN §III-C). The order is inner, heard only, both, hearing only, so that rows
that are sent are one range, and rows that wait for messages another.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.store.sharding.node_order import NodeOrder

_BY_HEARD_AND_HEARS = np.array([[0, 3], [1, 2]], np.uint8)
"""The place in the order of inner nodes, those that hear only; those that are heard only, both."""


@dataclass(frozen=True)
class Crossings:
    """Which nodes have something to do with other parts than their own, by the edges noted so far: two bytes a node."""

    owner: NDArray[Any]
    hears: NDArray[np.bool_]
    heard: NDArray[np.bool_]

    @classmethod
    def between(cls, owner: NDArray[Any]) -> Self:
        """No edges yet, between parts that own nodes so."""
        return cls(owner, np.zeros(len(owner), np.bool_), np.zeros(len(owner), np.bool_))

    def note(self, pairs: NDArray[Any]) -> None:
        """Look at some edges [E, 2] of (source, destination)."""
        _note(pairs, self.owner, self.hears, self.heard)

    def kinds(self, nodes: NDArray[Any]) -> NDArray[np.uint8]:
        """The place in the order of each of these nodes."""
        kinds: NDArray[np.uint8] = _BY_HEARD_AND_HEARS[self.heard[nodes].astype(np.int8), self.hears[nodes].astype(np.int8)]
        return kinds


def order_inner_first(order: NodeOrder, sub_offsets: Sequence[NDArray[np.int64]], crossings: Crossings) -> None:
    """Number the nodes of each sub-part as above; those alike keep their order. `order` is changed in place."""
    for offsets in sub_offsets:
        for low, high in itertools.pairwise(offsets.tolist()):
            order.sort(low, high, crossings.kinds(order.position_of_global[low:high]), 3)


@compiled
def _note(pairs: NDArray[Any], owner: NDArray[Any], hears: NDArray[np.bool_], heard: NDArray[np.bool_]) -> None:
    for i in range(len(pairs)):
        source, destination = np.uint64(pairs[i, 0]), np.uint64(pairs[i, 1])
        if owner[source] != owner[destination]:
            heard[source] = True
            hears[destination] = True
