from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from starling.core.errors import InputError
from starling.kernels.relabel import relabel_map, unique_relabel, unique_relabel_with

int64s = st.integers(-(2**63), 2**63 - 1)


def in_order_of_appearance(ids: list[int]) -> tuple[list[int], list[int]]:
    """The slow twin: a dictionary keeps the order in which keys were added."""
    places: dict[int, int] = {}
    dense = [places.setdefault(number, len(places)) for number in ids]
    return list(places), dense


def test_by_hand() -> None:
    unique, dense = unique_relabel(np.array([70, 30, 70, 90, 30]))
    assert unique.tolist() == [70, 30, 90]
    assert dense.tolist() == [0, 1, 0, 2, 1]
    assert dense.dtype == np.int32


@given(st.lists(st.one_of(st.integers(-5, 5), int64s)))
def test_any_integers(ids: list[int]) -> None:
    result = unique_relabel(np.array(ids, np.int64))
    assert (result.unique.tolist(), result.dense.tolist()) == in_order_of_appearance(ids)


@given(arrays(st.sampled_from([np.int32, np.int64]), st.integers(0, 300), elements=st.integers(0, 99)))
def test_hash_and_map_agree(ids: np.ndarray) -> None:
    places = relabel_map(100)
    for result in (unique_relabel(ids), unique_relabel_with(places, ids)):
        assert (result.unique.tolist(), result.dense.tolist()) == in_order_of_appearance(ids.tolist())
        assert result.unique.dtype == ids.dtype
        assert result.dense.dtype == np.int32
    assert (places == -1).all()


@pytest.mark.parametrize("step", [1, 64, 4096, 1 << 20])
def test_regular_ids_do_not_crowd(step: int) -> None:
    ids = np.arange(50_000, dtype=np.int64) * step
    result = unique_relabel(np.concatenate([ids, ids[::-1]]))
    np.testing.assert_array_equal(result.unique, ids)
    np.testing.assert_array_equal(result.dense, np.concatenate([np.arange(50_000), np.arange(50_000)[::-1]]))


def test_as_numpy_unique_on_many() -> None:
    ids = np.random.default_rng(3).integers(0, 40_000, 200_000, dtype=np.int32)
    unique, dense = unique_relabel_with(relabel_map(40_000), ids)
    expected, first = np.unique(ids, return_index=True)
    np.testing.assert_array_equal(unique, expected[np.argsort(first)])
    np.testing.assert_array_equal(unique[dense], ids)


@pytest.mark.parametrize("wrong", [-1, 10, 2**40])
def test_an_id_without_a_place_is_named_and_the_map_is_free_again(wrong: int) -> None:
    places = relabel_map(10)
    with pytest.raises(InputError, match=rf"\[0, 10\), got {wrong} at position 2"):
        unique_relabel_with(places, np.array([3, 4, wrong, 5]))
    assert (places == -1).all()


def test_the_result_does_not_hold_on_to_the_longer_buffer() -> None:
    result = unique_relabel(np.zeros(1000, np.int64))
    assert result.unique.base is None


def test_threads_side_by_side() -> None:
    rng = np.random.default_rng(4)
    batches = [rng.integers(0, 5_000, 20_000) for _ in range(16)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(unique_relabel, batches))
    for batch, result in zip(batches, results, strict=True):
        assert (result.unique.tolist(), result.dense.tolist()) == in_order_of_appearance(batch.tolist())


def test_only_a_plain_list() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
        unique_relabel(np.zeros((2, 2), np.int64))
