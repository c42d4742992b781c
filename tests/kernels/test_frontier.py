from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.csr import csr_from_pairs
from starling.kernels.frontier import FrontierPool, cut_by_sources

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


def test_ranges_by_hand() -> None:
    offsets, neighbours = np.array([0, 2, 3, 3, 6]), np.array([1, 2, 0, 0, 1, 2], np.int32)
    assert cut_by_sources(offsets, neighbours, 3, 99).tolist() == [0, 3, 4]  # rows 0, 1, 2 hear only from one another
    assert cut_by_sources(offsets, neighbours, 2, 99).tolist() == [0, 1, 2, 3, 4]  # row 0 needs three, and is alone
    assert cut_by_sources(offsets, neighbours, 99, 3).tolist() == [0, 3, 4]
    assert cut_by_sources(offsets[:1], neighbours[:0], 3, 3).tolist() == [0]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=60), st.integers(1, 12), st.integers(1, 20))
def test_ranges_are_as_long_as_they_may_be(pairs: list[tuple[int, int]], sources: int, edges: int) -> None:
    csr = csr_from_pairs(np.array(pairs, np.int32).reshape(-1, 2), 10)
    bounds = cut_by_sources(csr.offsets, csr.neighbours, sources, edges).tolist()
    assert bounds[0] == 0
    assert bounds[-1] == 10

    def fits(start: int, stop: int) -> bool:
        taken = csr.neighbours[csr.offsets[start] : csr.offsets[stop]]
        return len(taken) <= edges and len({*range(start, stop), *taken.tolist()}) <= sources

    for start, stop in itertools.pairwise(bounds):
        assert fits(start, stop) or stop == start + 1
        assert stop == 10 or not fits(start, stop + 1)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40), st.lists(st.integers(0, 9), unique=True, max_size=8)
)
def test_lists_that_are_read_in_place_add_what_copied_ones_do(pairs: list[tuple[int, int]], chosen: list[int]) -> None:
    lists = csr_from_pairs(np.array(pairs, np.int32).reshape(-1, 2), 10)
    rows, copied = np.array(chosen, np.int64), [lists.neighbours[lists.offsets[row] : lists.offsets[row + 1]] for row in chosen]
    together = np.concatenate([np.empty(0, np.int32), *copied])
    pool = FrontierPool(10)
    with pool.frontier(rows) as one, pool.frontier(rows) as two:
        assert one.extend_from(lists, rows) == len(together)
        two.extend(together)
        assert one.rows.tolist() == two.rows.tolist()
        assert one.places.tolist() == two.places.tolist()
