"""The shuffle without memory is a shuffle."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.keyed import stream_key
from starling.stream.generators.bijection import shuffled


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 700), st.integers(0, 2**63 - 1))
def test_every_place_once(n: int, seed: int) -> None:
    key = stream_key(seed, "test")
    assert sorted(shuffled(key, number, n) for number in range(n)) == list(range(n))


def test_neighbours_are_torn_apart() -> None:
    n = 100_003
    key = stream_key(0, "test")
    place = np.array([shuffled(key, number, n) for number in range(n)])
    assert abs(np.corrcoef(np.arange(n), place)[0, 1]) < 0.02
    assert abs(np.corrcoef(place[:-1], place[1:])[0, 1]) < 0.02
    halves = np.bincount(2 * (2 * np.arange(n) // n) + 2 * place // n, minlength=4)
    assert abs(halves / n - 0.25).max() < 0.01  # each half goes evenly to both halves


def test_recorded_places() -> None:
    key = stream_key(1, "test")
    assert [shuffled(key, number, 10) for number in range(10)] == [5, 1, 2, 8, 3, 4, 0, 7, 9, 6]
    assert [shuffled(stream_key(2, "test"), number, 10) for number in range(10)] == [0, 2, 7, 3, 1, 8, 4, 9, 6, 5]
