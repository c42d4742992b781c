"""Number the different ids of a list 0, 1, 2, … in the order in which they first appear.

Two ways, with the same result: a hash table, for ids of any size, and a map with a place for every node, twice as quick,
which is made once and lent to each call. Both are one sequential loop without the GIL, so batches are relabelled side by side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.errors import InputError

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)  # unsigned: Numba asks of every other index whether it counts from the end


class Relabelled(NamedTuple):
    """The different ids, and for each of the given ids its place among them: ``unique[dense] == ids``."""

    unique: NDArray[Any]
    dense: NDArray[np.int32]


def unique_relabel(ids: NDArray[Any]) -> Relabelled:
    """The different ids in order of first appearance, and the given ids renumbered by it (int32).

    Any integers will do, negative ones too. Costs 8 to 16 bytes an id while it runs.
    """
    _check_length(ids)
    unique, dense = np.empty_like(ids), np.empty(len(ids), np.int32)
    bits = max(1, (2 * len(ids) - 1).bit_length())
    return Relabelled(unique[: _relabel_by_hash(ids, bits, unique, dense)].copy(), dense)


def relabel_map(nodes: int) -> NDArray[np.int32]:
    """A map for `unique_relabel_with`: a place for every node, all free."""
    return np.full(nodes, -1, np.int32)


def unique_relabel_with(places: NDArray[np.int32], ids: NDArray[Any]) -> Relabelled:
    """As `unique_relabel`, for ids in [0, len(places)).

    `places` comes from `relabel_map` and is all free again afterwards, whatever happens; it serves one call at a time.
    """
    _check_length(ids)
    unique, dense = np.empty_like(ids), np.empty(len(ids), np.int32)
    count, outside = _relabel_by_map(ids, places, unique, dense)
    if outside >= 0:
        raise InputError(f"Expected node numbers in [0, {len(places):,}), got {ids[outside]} at position {outside:,}.")
    return Relabelled(unique[:count].copy(), dense)


def _check_length(ids: NDArray[Any]) -> None:
    if ids.ndim != 1 or len(ids) > np.iinfo(np.int32).max:
        raise ValueError(f"ids of shape {ids.shape} cannot be renumbered with int32")


@compiled
def _relabel_by_hash(ids: NDArray[Any], bits: int, unique: NDArray[Any], dense: NDArray[np.int32]) -> int:
    """Open addressing in 2^bits slots, at most half of them taken; a slot holds a place in `unique`, −1 when free."""
    slots = np.full(1 << bits, -1, np.int32)
    last, shift = np.uint64((1 << bits) - 1), np.uint64(64 - bits)
    count = 0
    for i in range(len(ids)):
        # The high bits of a product with the golden ratio spread runs of neighbouring ids evenly (Knuth 6.4).
        slot = (np.uint64(ids[i]) * _GOLDEN) >> shift
        while slots[slot] >= 0 and unique[slots[slot]] != ids[i]:
            slot = (slot + _ONE) & last
        if slots[slot] < 0:
            slots[slot] = count
            unique[count] = ids[i]
            count += 1
        dense[i] = slots[slot]
    return count


@compiled
def _relabel_by_map(
    ids: NDArray[Any], places: NDArray[np.int32], unique: NDArray[Any], dense: NDArray[np.int32]
) -> tuple[int, int]:
    """Returns how many are different, and where the first id without a place stands, or −1."""
    count, outside = 0, -1
    for i in range(len(ids)):
        if ids[i] < 0 or ids[i] >= len(places):
            outside = i
            break
        node = np.uint64(ids[i])
        place = places[node]
        if place < 0:
            place = np.int32(count)
            places[node] = place
            unique[count] = ids[i]
            count += 1
        dense[i] = place
    for k in range(count):
        places[unique[k]] = -1
    return count, outside
