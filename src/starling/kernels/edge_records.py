"""Loops over edges as pairs: packing, surveying, and matching equal and reverse edges.

To match edges that do not fit in memory, each becomes a *record* that is the same for both directions but for one bit: one
word ``smaller << 32 | larger << 1 | direction`` where positions fit 31 bits and edges have no type, else three words
``smaller << 1 | direction, larger, type``. Records of one edge, its copies and its reverses meet in one bucket, where an
open-addressing table finds them and a word beside each table row counts both directions (forward in the low half, backward
in the high half). A table row is a record with its direction bit set, which marks it as taken; a free row is all zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import mix64

NARROW, WIDE = 1, 3
"""Words of a record."""

DROP, KEEP, KEEP_WITH_REVERSE = 0, 1, 2
"""What becomes of an edge."""

_ONE, _U32 = np.uint64(1), np.uint64(32)
_TAKEN = np.uint64(1)
_NO_DIRECTION = ~np.uint64(1)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@compiled
def pack_pairs(source: NDArray[np.int64], destination: NDArray[np.int64], out: NDArray[Any]) -> tuple[int, int]:
    """Write rows (source, destination), and return the smallest and largest number among them."""
    low, high = source[0], source[0]
    for i in range(len(source)):
        u, v = source[i], destination[i]
        low = min(low, u, v)
        high = max(high, u, v)
        out[i, 0] = u
        out[i, 1] = v
    return low, high


@compiled
def first_outside(numbers: NDArray[Any], below: int) -> int:
    """Index of the first number outside 0 … below − 1, or −1."""
    for i in range(len(numbers)):
        if numbers[i] < 0 or numbers[i] >= below:
            return i
    return -1


@compiled
def survey(pairs: NDArray[Any], skip_loops: bool, touched: NDArray[np.uint64]) -> tuple[int, np.uint64]:
    """Count self-loops, mark the nodes that edges touch (kernels/bitset.py), and sum h(u, v) − h(v, u) over the edges.

    A multiset of edges is symmetric when that sum, wrapped to 64 bits, is 0; another one passes with probability 2⁻⁶⁴.
    With `skip_loops`, self-loops touch nothing.
    """
    loops, balance = 0, np.uint64(0)
    for i in range(len(pairs)):
        u, v = np.int64(pairs[i, 0]), np.int64(pairs[i, 1])
        if u == v:
            loops += 1
            if skip_loops:
                continue
        touched[u >> 6] |= _ONE << np.uint64(u & 63)
        touched[v >> 6] |= _ONE << np.uint64(v & 63)
        balance += mix64(mix64(np.uint64(u)) + np.uint64(v) * _GOLDEN) - mix64(mix64(np.uint64(v)) + np.uint64(u) * _GOLDEN)
    return loops, balance


@compiled
def make_records(
    pairs: NDArray[Any], types: NDArray[Any], buckets: int, bucket: NDArray[np.uint8], records: NDArray[np.uint64]
) -> None:
    """The record and the bucket of every edge; `types` may be empty."""
    narrow = records.shape[1] == NARROW
    for i in range(len(pairs)):
        u, v = np.uint64(pairs[i, 0]), np.uint64(pairs[i, 1])
        backward = np.uint64(u > v)
        smaller, larger = min(u, v), max(u, v)
        if narrow:
            records[i, 0] = (smaller << _U32) | (larger << _ONE) | backward
        else:
            records[i, 0] = (smaller << _ONE) | backward
            records[i, 1] = larger
            records[i, 2] = np.uint64(types[i]) if len(types) else np.uint64(0)
        hashed = mix64(records[i, 0] & _NO_DIRECTION)
        for k in range(1, records.shape[1]):
            hashed = mix64(hashed ^ (records[i, k] * _GOLDEN))
        bucket[i] = ((hashed >> _U32) * np.uint64(buckets)) >> _U32


@compiled
def find_edges(records: NDArray[np.uint64], table: NDArray[np.uint64], slots: NDArray[np.int64]) -> int:
    """The table row of every record, entered where it is not there yet; returns how many were new.

    The table must have a free row for each. (Probing is written out here and nowhere else: as a function of its own that
    takes the arrays, Numba's reference counting costs ten times the search.)
    """
    words, capacity, new = records.shape[1], len(table), 0
    for i in range(len(records)):
        key = records[i, 0] & _NO_DIRECTION
        hashed = mix64(key)
        for k in range(1, words):
            hashed = mix64(hashed ^ (records[i, k] * _GOLDEN))
        # The high half of the hash chose the bucket, so the low half chooses the row.
        slot = np.int64(((hashed & _LOW_HALF) * np.uint64(capacity)) >> _U32)
        key |= _TAKEN
        while True:
            if table[slot, 0] == key:
                k = 1
                while k < words and table[slot, k] == records[i, k]:
                    k += 1
                if k == words:
                    break
            elif table[slot, 0] == 0:
                new += 1
                table[slot, 0] = key
                for k in range(1, words):
                    table[slot, k] = records[i, k]
                break
            slot += 1
            if slot == capacity:
                slot -= capacity
        slots[i] = slot
    return new


@compiled
def count_edges(records: NDArray[np.uint64], slots: NDArray[np.int64], counts: NDArray[np.uint64]) -> int:
    """Count each record at its slot, by direction; returns how many had been counted before."""
    repeats = 0
    for i in range(len(records)):
        half = (records[i, 0] & _ONE) * _U32
        if (counts[slots[i]] >> half) & _LOW_HALF:
            repeats += 1
        counts[slots[i]] += _ONE << half
    return repeats


@compiled
def judge_edges(
    records: NDArray[np.uint64],
    slots: NDArray[np.int64],
    counts: NDArray[np.uint64],
    passed: NDArray[np.uint64],
    drop_loops: bool,
    drop_repeats: bool,
    add_reverses: bool,
    verdict: NDArray[np.uint8],
) -> tuple[int, int]:
    """Decide for each record whether its edge is dropped, kept, or kept with a reverse added behind it.

    The k-th copy of an edge lacks its reverse when the input has fewer than k copies of the reverse, so that with the added
    ones both directions occur equally often. `passed` is counts all 0 at first, and counts as records go by.
    Returns how many repeats are dropped (self-loops apart, when all those are) and how many reverses are added.
    """
    narrow = records.shape[1] == NARROW
    dropped, added = 0, 0
    for i in range(len(records)):
        slot, first = slots[i], records[i, 0]
        mine = (first & _ONE) * _U32
        theirs = _U32 - mine
        earlier = (passed[slot] >> mine) & _LOW_HALF
        passed[slot] += _ONE << mine
        loop = first >> _U32 == (first & _LOW_HALF) >> _ONE if narrow else first >> _ONE == records[i, 1]
        if drop_loops and loop:
            verdict[i] = DROP
        elif drop_repeats and earlier:
            verdict[i] = DROP
            dropped += 1
        elif add_reverses and not loop and earlier >= (counts[slot] >> theirs) & _LOW_HALF:
            verdict[i] = KEEP_WITH_REVERSE
            added += 1
        else:
            verdict[i] = KEEP
    return dropped, added


@compiled
def expand(pairs: NDArray[Any], verdict: NDArray[np.uint8], out: NDArray[Any], origin: NDArray[np.int64]) -> int:
    """Write the edges that remain, each followed by its reverse where it gets one, and the row each came from.

    `out` and `origin` have room for twice the pairs. Returns how many rows were written.
    """
    at = 0
    for i in range(len(pairs)):
        if verdict[i] == DROP:
            continue
        u, v = pairs[i, 0], pairs[i, 1]
        out[at, 0], out[at, 1], origin[at] = u, v, i
        at += 1
        if verdict[i] == KEEP_WITH_REVERSE:
            out[at, 0], out[at, 1], origin[at] = v, u, i
            at += 1
    return at
