"""Split pairs into buckets, keeping their order inside each: the first level of the sorts in this package.

A sort that scatters over a whole graph misses the cache at every write. Splitting first into a few hundred buckets, each
small enough for the cache, and then sorting inside them is two cheap passes for one dear one. Threads split a chunk of the
pairs each. The result does not depend on their number: a stable sort has one answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.parallel import cut_ranges, parallel_for, worthwhile_threads

MOST_BUCKET_BITS = 9  # with more than 512 streams of writes at once, they push one another out of the cache
_PAIRS_IN_CACHE = 1 << 14
_ONE = np.uint64(1)  # unsigned: Numba asks of every other index whether it counts from the end


@dataclass(frozen=True)
class SplitPairs:
    """Rows (first, second, position in the input) [E, 3]; those of bucket b are rows bounds[b] … bounds[b + 1] − 1."""

    records: NDArray[Any]
    bounds: NDArray[np.int64]

    def bucket(self, number: int) -> NDArray[Any]:
        """The rows of one bucket, in the order of the input."""
        return self.records[self.bounds[number] : self.bounds[number + 1]]


def bucket_bits(pairs: int) -> int:
    """How many bits of a key to split by: enough that a bucket fits the cache, few enough to write all buckets at once."""
    return min(MOST_BUCKET_BITS, (pairs // _PAIRS_IN_CACHE).bit_length())


def split_pairs(
    first: NDArray[Any], second: NDArray[Any], bucket: NDArray[np.uint16], buckets: int, threads: int | None = None
) -> SplitPairs:
    """Arrange the pairs (first[i], second[i]) by bucket[i], stably.

    Costs two passes and 12 bytes a pair; 24 when a member or a position needs int64.
    """
    pairs = len(bucket)
    threads = worthwhile_threads(pairs, threads)
    chunks = cut_ranges(pairs, threads)
    counts = np.zeros((len(chunks) - 1, buckets), np.int64)

    def tally(begin: int, end: int) -> None:
        for chunk in range(begin, end):
            _tally(bucket, chunks[chunk], chunks[chunk + 1], counts[chunk])

    parallel_for(len(counts), tally, threads)
    bounds = np.zeros(buckets + 1, np.int64)
    np.cumsum(counts.sum(axis=0), out=bounds[1:])
    # Inside a bucket, a chunk's pairs stand behind those of the chunks before it.
    places = (bounds[:-1] + np.cumsum(counts, axis=0) - counts).astype(np.uint64)
    wide = max(first.itemsize, second.itemsize) > 4 or pairs > np.iinfo(np.int32).max
    records = np.empty((pairs, 3), np.int64 if wide else np.int32)

    def scatter(begin: int, end: int) -> None:
        for chunk in range(begin, end):
            _scatter(first, second, bucket, chunks[chunk], chunks[chunk + 1], places[chunk], records)

    parallel_for(len(counts), scatter, threads)
    return SplitPairs(records, bounds)


@compiled
def _tally(bucket: NDArray[np.uint16], start: int, stop: int, counts: NDArray[np.int64]) -> None:
    for i in range(start, stop):
        counts[bucket[i]] += 1


@compiled
def _scatter(
    first: NDArray[Any],
    second: NDArray[Any],
    bucket: NDArray[np.uint16],
    start: int,
    stop: int,
    place: NDArray[np.uint64],
    records: NDArray[Any],
) -> None:
    for i in range(start, stop):
        row = place[bucket[i]]
        place[bucket[i]] = row + _ONE
        records[row, 0] = first[i]
        records[row, 1] = second[i]
        records[row, 2] = i
