from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.dedupe import dedupe_pairs
from tests.support.pairs import Edges, edge_lists, tiny_thresholds


@pytest.fixture(autouse=True, scope="module")
def _small_inputs_take_every_path() -> Iterator[None]:
    with tiny_thresholds():
        yield


def test_by_hand() -> None:
    pairs = np.array([[1, 2], [2, 1], [1, 2], [3, 3], [3, 3], [2, 1]])
    assert dedupe_pairs(pairs).tolist() == [True, True, False, True, False, False]


@given(edge_lists(most_nodes=6), st.sampled_from([1, 4]))
def test_first_occurrences_as_a_set_finds_them(edges: Edges, threads: int) -> None:
    seen: set[tuple[int, ...]] = set()
    expected = []
    for pair in map(tuple, edges.pairs.tolist()):
        expected.append(pair not in seen)
        seen.add(pair)
    mask = dedupe_pairs(edges.pairs, threads=threads)
    assert mask.dtype == np.bool_
    assert mask.tolist() == expected


@given(st.lists(st.tuples(st.sampled_from([0, 1, -1, 2**33, -(2**63), 2**63 - 1]), st.integers(2**62, 2**62 + 2))))
def test_ids_of_64_bits(pairs: list[tuple[int, int]]) -> None:
    array = np.array(pairs, np.int64).reshape(-1, 2)
    assert sorted(map(tuple, array[dedupe_pairs(array)].tolist())) == sorted(set(pairs))


@pytest.mark.parametrize("threads", [1, 4])
def test_many_as_numpy_unique(threads: int) -> None:
    pairs = np.random.default_rng(5).integers(0, 300, (150_000, 2), dtype=np.int32)
    _, first = np.unique(pairs, axis=0, return_index=True)
    np.testing.assert_array_equal(np.flatnonzero(dedupe_pairs(pairs, threads=threads)), np.sort(first))


def test_all_equal_and_none() -> None:
    assert dedupe_pairs(np.full((5_000, 2), 9)).sum() == 1
    assert dedupe_pairs(np.empty((0, 2), np.int32)).tolist() == []
