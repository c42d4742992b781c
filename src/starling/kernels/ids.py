"""Loops over user ids: hashing them, and numbering the different ones in the order in which they first appear.

The hash of an id is part of the graph format (``ids.hash.npy``). An integer is mixed as it stands. A text starts from its
length in bytes and absorbs its UTF-8 bytes eight at a time, little-endian, the last word filled up with zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import mix64

_U32 = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@compiled
def hash_integers(ids: NDArray[np.int64], hashes: NDArray[np.uint64]) -> None:
    """The hash of each integer id; different ids never share one."""
    for i in range(len(ids)):
        hashes[i] = mix64(np.uint64(ids[i]) + _GOLDEN)


@compiled
def hash_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8], hashes: NDArray[np.uint64]) -> None:
    """The hash of each text; two different ones may share it."""
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        hashed = np.uint64(stop - start) * _GOLDEN
        while start < stop:
            word = np.uint64(0)
            for k in range(min(8, stop - start)):
                word |= np.uint64(data[start + k]) << np.uint64(8 * k)
            hashed = mix64(hashed ^ word)
            start += 8
        hashes[i] = mix64(hashed)


@compiled
def buckets_of(hashes: NDArray[np.uint64], count: int, bucket: NDArray[np.uint8]) -> None:
    """The bucket of each hash; buckets are ranges of the hash in ascending order."""
    for i in range(len(hashes)):
        bucket[i] = ((hashes[i] >> _U32) * np.uint64(count)) >> _U32


@compiled
def number_hashes(
    hashes: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    numbers: NDArray[np.uint32],
    known: int,
    number: NDArray[np.uint32],
    first: NDArray[np.bool_],
) -> int:
    """Number each hash, new ones counting up from `known`, and say which are new; returns how many are known now.

    For integer ids that numbers the ids, whose hashes all differ. `keys` and `numbers` are an open-addressing table with
    room for all; a row whose number is 0 is free, and numbers in it are one too high for that. The low half of the hash
    chooses the row, since the high half chose the bucket.
    """
    capacity = len(keys)
    for i in range(len(hashes)):
        slot = np.int64(((hashes[i] & _LOW_HALF) * np.uint64(capacity)) >> _U32)
        while numbers[slot] and keys[slot] != hashes[i]:
            slot += 1
            if slot == capacity:
                slot -= capacity
        first[i] = numbers[slot] == 0
        if first[i]:
            known += 1
            keys[slot] = hashes[i]
            numbers[slot] = known
        number[i] = numbers[slot] - np.uint32(1)
    return known


@compiled
def number_texts(
    offsets: NDArray[np.int64],
    data: NDArray[np.uint8],
    hashes: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    numbers: NDArray[np.uint32],
    known_offsets: NDArray[np.int64],
    known_data: NDArray[np.uint8],
    known: int,
    number: NDArray[np.uint32],
    first: NDArray[np.bool_],
) -> int:
    """As `number_hashes`, for texts, which are also compared byte by byte.

    The known texts stand one after the other in `known_data`, text n ending at ``known_offsets[n + 1]``.
    """
    capacity = len(keys)
    for i in range(len(offsets) - 1):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        slot = np.int64(((hashes[i] & _LOW_HALF) * np.uint64(capacity)) >> _U32)
        while numbers[slot]:
            if keys[slot] == hashes[i]:
                other = known_offsets[np.int64(numbers[slot]) - 1]
                if known_offsets[np.int64(numbers[slot])] - other == length:
                    k = 0
                    while k < length and known_data[other + k] == data[start + k]:
                        k += 1
                    if k == length:
                        break
            slot += 1
            if slot == capacity:
                slot -= capacity
        first[i] = numbers[slot] == 0
        if first[i]:
            end = known_offsets[known]
            for k in range(length):
                known_data[end + k] = data[start + k]
            known += 1
            known_offsets[known] = end + length
            keys[slot] = hashes[i]
            numbers[slot] = known
        number[i] = numbers[slot] - np.uint32(1)
    return known


@compiled
def move_numbers(
    keys: NDArray[np.uint64], numbers: NDArray[np.uint32], new_keys: NDArray[np.uint64], new_numbers: NDArray[np.uint32]
) -> None:
    """Put every row of a table of numbered hashes into an empty larger one."""
    capacity = len(new_keys)
    for i in range(len(keys)):
        if numbers[i]:
            slot = np.int64(((keys[i] & _LOW_HALF) * np.uint64(capacity)) >> _U32)
            while new_numbers[slot]:
                slot += 1
                if slot == capacity:
                    slot -= capacity
            new_keys[slot], new_numbers[slot] = keys[i], numbers[i]


@compiled
def arrange_texts(
    bucket: NDArray[Any],
    offsets: NDArray[np.int64],
    data: NDArray[np.uint8],
    at: NDArray[np.int64],
    byte_at: NDArray[np.int64],
    lengths: NDArray[np.int32],
    arranged: NDArray[np.uint8],
) -> None:
    """Write lengths and bytes of texts bucket by bucket, in order inside each; `at` and `byte_at` are where each begins."""
    for i in range(len(bucket)):
        b, start, length = bucket[i], offsets[i], offsets[i + 1] - offsets[i]
        lengths[at[b]] = length
        at[b] += 1
        to = byte_at[b]
        for k in range(length):
            arranged[to + k] = data[start + k]
        byte_at[b] += length


@compiled
def find_hashes(hashes: NDArray[np.uint64], known: NDArray[np.uint64], start: int, stop: int, found: NDArray[np.int64]) -> None:
    """For hashes start … stop − 1, where the first equal one stands among the sorted `known`, or would stand."""
    for i in range(start, stop):
        low, high = 0, len(known)
        while low < high:
            middle = (low + high) // 2
            if known[middle] < hashes[i]:
                low = middle + 1
            else:
                high = middle
        found[i] = low


@compiled
def match_integers(
    ids: NDArray[np.int64], known: NDArray[np.uint64], order: NDArray[Any], stored: NDArray[np.int64], found: NDArray[np.int64]
) -> None:
    """Replace what `find_hashes` found by the position of each id, −1 where it is not stored."""
    for i in range(len(ids)):
        at = found[i]
        found[i] = -1
        if at < len(known) and stored[order[at]] == ids[i]:
            found[i] = order[at]


@compiled
def match_texts(
    offsets: NDArray[np.int64],
    data: NDArray[np.uint8],
    hashes: NDArray[np.uint64],
    known: NDArray[np.uint64],
    order: NDArray[Any],
    stored_offsets: NDArray[np.int64],
    stored: NDArray[np.uint8],
    found: NDArray[np.int64],
) -> None:
    """As `match_integers`, for texts; several may share a hash."""
    for i in range(len(offsets) - 1):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        at = found[i]
        found[i] = -1
        while at < len(known) and known[at] == hashes[i]:
            position = order[at]
            other = stored_offsets[position]
            k = 0
            if stored_offsets[position + 1] - other == length:
                while k < length and stored[other + k] == data[start + k]:
                    k += 1
                if k == length:
                    found[i] = position
                    break
            at += 1
