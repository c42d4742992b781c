"""Cuts by time: where sorting all times would cut, whoever holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.plan.links.by_time import cuts_by_time, ordered_times, time_split


def split_of(pieces: list[NDArray[Any]], ends: tuple[float, float]) -> list[NDArray[np.uint8]]:
    cuts = cuts_by_time(lambda: pieces, ends, lambda counts: counts)
    return [time_split(piece, cuts) for piece in pieces]


@given(st.lists(st.one_of(st.integers(-5, 5), st.floats(-1e300, 1e300)), min_size=1, max_size=60), st.integers(1, 4))
def test_time_cuts_where_sorting_would(times: list[float], count: int) -> None:
    """In however many pieces the times are."""
    time, ends = np.array(times, np.float64), (0.6, 0.8)
    ranked = np.sort(time)
    last = [ranked[round(len(time) * end) - 1] if round(len(time) * end) else -np.inf for end in ends]
    expected = (time > last[0]).astype(int) + (time > last[1])
    np.testing.assert_array_equal(np.concatenate(split_of(np.array_split(time, count), ends)), expected)


def test_workers_hear_only_sums() -> None:
    time = np.random.default_rng(0).normal(size=500)
    (expected,) = split_of([time], (0.7, 0.9))

    def worker(team: Team) -> NDArray[np.uint8]:
        mine, tags = np.array_split(time, 3)[team.rank], iter(range(10**6))
        cuts = cuts_by_time(lambda: [mine], (0.7, 0.9), lambda counts: np.sum(team.all_lists(next(tags), counts), axis=0))
        return time_split(mine, cuts)

    np.testing.assert_array_equal(np.concatenate(run_threads(3, worker)), expected)
    assert np.bincount(expected).tolist() == [350, 100, 50]


def test_time_of_whole_numbers_is_exact() -> None:
    time = np.array([2**60, 2**60 + 1, 2**60 + 2, 2**60 + 3], np.int64)
    assert split_of([time], (0.5, 0.75))[0].tolist() == [0, 0, 1, 2]
    assert split_of([time[:0], time[:0]], (0.5, 0.75))[0].tolist() == []
    with pytest.raises(InputError, match="Expected a number for the time"):
        split_of([np.array([1.0, np.nan])], (0.5, 0.75))


def test_order_of_times_by_hand() -> None:
    floats = np.array([-np.inf, -2.0, -0.0, 0.0, 1e-300, 3.5, np.inf])
    order = ordered_times(floats)
    assert order[2] == order[3]
    assert (np.diff(order.astype(object)) >= 0).all()
    assert len(set(order.tolist())) == 6
    assert ordered_times(np.array([-1, 0, 1])).tolist() == [2**63 - 1, 2**63, 2**63 + 1]
