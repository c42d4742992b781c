from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.frontier import FrontierPool

numbers = st.lists(st.integers(0, 19), max_size=40)


@given(st.lists(numbers, min_size=1, max_size=4))
def test_places_are_those_of_first_appearance(hops: list[list[int]]) -> None:
    pool, known = FrontierPool(20), dict[int, int]()
    with pool.frontier(np.array(hops[0], np.int32)) as frontier:
        for number in hops[0]:
            known.setdefault(number, len(known))
        for hop in hops[1:]:
            places = frontier.extend(np.array(hop, np.int32))
            assert places.tolist() == [known.setdefault(number, len(known)) for number in hop]
        assert frontier.rows.tolist() == list(known)
        assert len(frontier) == len(known)
        assert frontier.places.tolist() == [known.get(number, -1) for number in range(20)]
        places_used = frontier.places
    assert (places_used == -1).all()


def test_maps_are_used_again_but_never_by_two() -> None:
    pool = FrontierPool(5)
    with pool.frontier(np.array([1])) as one, pool.frontier(np.array([3, 1])) as two:
        assert one.places is not two.places
        assert two.extend(np.array([1, 4])).tolist() == [1, 2]
        used = {id(one.places), id(two.places)}
    with pool.frontier(np.array([2])) as again:
        assert id(again.places) in used
        assert again.places.tolist() == [-1, -1, 0, -1, -1]


def test_a_map_in_doubt_is_dropped() -> None:
    pool, spoilt = FrontierPool(5), np.zeros(0, np.int32)

    def fail() -> None:
        nonlocal spoilt
        with pool.frontier(np.array([1])) as first:
            spoilt = first.places
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with pool.frontier(np.array([2])) as again:
        assert again.places is not spoilt
