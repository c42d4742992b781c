"""Find equal pairs: split them by a hash so that equal ones share a bucket, then match each bucket in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import mix64
from starling.kernels.parallel import parallel_for, worthwhile_threads
from starling.kernels.split import SplitPairs, bucket_bits, split_pairs

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)  # unsigned: Numba asks of every other index whether it counts from the end


def split_by_hash(pairs: NDArray[Any], *, both_ways: bool, threads: int | None = None) -> SplitPairs:
    """The pairs [E, 2] in buckets, equal ones in the same; with `both_ways`, an edge and its reverse are in the same."""
    threads = worthwhile_threads(len(pairs), threads)
    bits = bucket_bits(len(pairs))
    bucket = np.empty(len(pairs), np.uint16)
    parallel_for(len(pairs), lambda start, stop: _hash_buckets(pairs, both_ways, bits, bucket, start, stop), threads)
    return split_pairs(pairs[:, 0], pairs[:, 1], bucket, 1 << bits, threads)


@compiled
def first_equal(records: NDArray[Any], both_ways: bool, first: NDArray[np.int64]) -> None:
    """For each record of a bucket the number of the first that is equal to it (or, with `both_ways`, its reverse).

    Open addressing, a table at most half full; ids are compared whole, so a shared hash costs time, never an answer.
    """
    bits = 1
    while 1 << bits < 2 * len(records):
        bits += 1
    last = np.uint64((1 << bits) - 1)
    table = np.full(1 << bits, -1, np.int64)
    for i in range(len(records)):
        a, b = np.int64(records[i, 0]), np.int64(records[i, 1])
        if both_ways and a > b:
            a, b = b, a
        slot = hash_pair(a, b) & last
        while table[slot] >= 0:
            c, d = np.int64(records[table[slot], 0]), np.int64(records[table[slot], 1])
            if (a == c and b == d) or (both_ways and a == d and b == c):
                break
            slot = (slot + _ONE) & last
        if table[slot] < 0:
            table[slot] = i
        first[i] = table[slot]


@compiled
def hash_pair(a: np.int64, b: np.int64) -> np.uint64:
    """64 bits that depend on both ids and on their order."""
    return mix64(mix64(np.uint64(a)) + np.uint64(b) * _GOLDEN)


@compiled
def _hash_buckets(pairs: NDArray[Any], both_ways: bool, bits: int, bucket: NDArray[np.uint16], start: int, stop: int) -> None:
    """The high bits of the hash choose the bucket, so that the low ones are free to choose a slot inside it."""
    shift = np.uint64(63 - bits)
    for i in range(start, stop):
        a, b = np.int64(pairs[i, 0]), np.int64(pairs[i, 1])
        if both_ways and a > b:
            a, b = b, a
        bucket[i] = (hash_pair(a, b) >> np.uint64(1)) >> shift
