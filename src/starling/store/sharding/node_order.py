"""The numbers nodes get in a partitioned graph: one contiguous range a part, neighbours close together inside it.

The owner of a global id is then a binary search in p + 1 offsets, and its local row a subtraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.npy import save_array
from starling.kernels.radix import invert, stable_order

_BLOCK = 1 << 20
OFFSETS, GLOBAL_OF_POSITION, POSITION_OF_GLOBAL = "offsets.npy", "global_of_position.npy", "position_of_global.npy"


@dataclass(frozen=True)
class NodeOrder:
    """Part q owns global ids offsets[q] … offsets[q + 1] − 1; the two maps [V] are each other's inverse."""

    offsets: NDArray[np.int64]
    position_of_global: NDArray[Any]
    global_of_position: NDArray[Any]

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return len(self.offsets) - 1

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.position_of_global)

    def positions(self, part: int) -> NDArray[Any]:
        """Positions of the nodes a part owns, in local order."""
        return self.position_of_global[self.offsets[part] : self.offsets[part + 1]]

    def sort(self, low: int, high: int, kinds: NDArray[Any], largest: int) -> None:
        """Number the nodes with global ids low … high − 1 by kind, a whole number up to `largest`; those alike keep their order."""
        mine = self.position_of_global[low:high]
        mine[:] = mine[stable_order(kinds, largest)]
        self.global_of_position[mine] = np.arange(low, high)

    def save(self, directory: Path) -> None:
        """Write the node map."""
        save_array(directory / OFFSETS, self.offsets)
        save_array(directory / GLOBAL_OF_POSITION, self.global_of_position)
        save_array(directory / POSITION_OF_GLOBAL, self.position_of_global)


def order_nodes(owner: NDArray[np.int32], parts: int, locality: NDArray[Any]) -> NodeOrder:
    """Number the nodes by part, then by locality, then by position. Costs 8 bytes a node beyond the result."""
    offsets = offsets_of(owner, parts)
    by_locality = stable_order(locality, int(locality.max(initial=0)))
    order = stable_order(owner, parts - 1, by_locality)
    inverse = np.empty_like(order)
    invert(order, inverse)
    return NodeOrder(offsets, order, inverse)


def offsets_of(keys: NDArray[Any], kinds: int) -> NDArray[np.int64]:
    """Where each kind begins [kinds + 1] when whole numbers in [0, kinds) are sorted."""
    offsets = np.zeros(kinds + 1, np.int64)
    for start in range(0, len(keys), _BLOCK):  # bincount makes a wide copy of what it is given
        offsets[1:] += np.bincount(keys[start : start + _BLOCK], minlength=kinds)
    return np.cumsum(offsets, out=offsets)


def sub_part_offsets(order: NodeOrder, part: int, sub_parts: int, in_degree: NDArray[Any]) -> NDArray[np.int64]:
    """Global ids [s + 1] that cut a part's range into sub-parts with equal numbers of nodes and in-edges together.

    They are as cheap to tear apart as the order lets them be: `starling partition --sub-parts` has METIS make it.
    """
    before = np.zeros(len(order.positions(part)) + 1, np.int64)
    before[1:] = in_degree[order.positions(part)]
    before[1:] += 1
    np.cumsum(before, out=before)
    shares = np.array([int(before[-1]) * k // sub_parts for k in range(sub_parts + 1)], np.int64)
    above = np.searchsorted(before, shares)
    below = np.maximum(above - 1, 0)
    nearest = np.where(before[above] - shares <= shares - before[below], above, below)
    nearest[-1] = len(before) - 1
    bounds: NDArray[np.int64] = nearest + order.offsets[part]
    return bounds
