from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.split import MOST_BUCKET_BITS, bucket_bits, split_pairs
from tests.support.pairs import tiny_thresholds


@pytest.fixture(autouse=True, scope="module")
def _small_inputs_take_every_path() -> Iterator[None]:
    with tiny_thresholds():
        yield


def test_by_hand() -> None:
    split = split_pairs(np.array([10, 11, 12, 13]), np.array([5, 6, 7, 8]), np.array([2, 0, 2, 0], np.uint16), 4)
    assert split.bounds.tolist() == [0, 2, 2, 4, 4]
    assert split.bucket(0).tolist() == [[11, 6, 1], [13, 8, 3]]
    assert split.bucket(1).tolist() == []
    assert split.bucket(2).tolist() == [[10, 5, 0], [12, 7, 2]]


@given(st.lists(st.integers(0, 6)), st.sampled_from([1, 2, 4]), st.sampled_from([np.int32, np.int64]))
def test_each_bucket_holds_its_pairs_in_order(buckets: list[int], threads: int, dtype: type[np.signedinteger]) -> None:
    first = np.arange(100, 100 + len(buckets), dtype=dtype)
    second = -first
    split = split_pairs(first, second, np.array(buckets, np.uint16), 7, threads)
    assert split.records.dtype == dtype
    for number in range(7):
        expected = [[100 + i, -100 - i, i] for i, bucket in enumerate(buckets) if bucket == number]
        assert split.bucket(number).tolist() == expected


def test_ids_beyond_32_bits_survive() -> None:
    split = split_pairs(np.array([2**40]), np.array([-(2**50)]), np.zeros(1, np.uint16), 1)
    assert split.records.tolist() == [[2**40, -(2**50), 0]]


def test_more_pairs_are_split_further_up_to_a_limit() -> None:
    bits = [bucket_bits(pairs) for pairs in (0, 1, 100, 10**4, 10**10)]
    assert bits == sorted(bits)
    assert bits[0] == 0
    assert bits[-1] == MOST_BUCKET_BITS
