"""Splits of edges: reverses together, ages in order, leaks found wherever they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.plan.links.splits import EdgeNames, EdgeShares, earlier_elsewhere, given_split, random_split, time_split


def alone(values: np.ndarray) -> np.ndarray:
    return values


def test_shares_are_read_and_checked() -> None:
    assert EdgeShares.parse("85/5/10") == EdgeShares(85, 5, 10)
    assert EdgeShares.parse("90/0/10").ends == (0.9, 0.9)
    for wrong in ("90/5", "90/5/4", "a/b/c", "0/50/50", "90/10/0", "110/-20/10", "", "nan/5/5"):
        with pytest.raises(InputError, match="add up to 100, such as 90/5/5"):
            EdgeShares.parse(wrong)


def test_random_splits_keep_pairs_together_and_meet_their_shares() -> None:
    half = np.random.default_rng(0).integers(0, 500, (20000, 2))
    shares = EdgeShares(80, 5, 15)
    split = random_split(half[:, 0], half[:, 1], shares, seed=1)
    np.testing.assert_array_equal(random_split(half[:, 1], half[:, 0], shares, seed=1), split)
    np.testing.assert_allclose(np.bincount(split) / len(split), [0.8, 0.05, 0.15], atol=0.01)
    assert (random_split(half[:, 0], half[:, 1], shares, seed=2) != split).any()


def test_given_splits_are_checked() -> None:
    np.testing.assert_array_equal(given_split(np.array([0, 2, 1]), "here"), [0, 2, 1])
    with pytest.raises(InputError, match=r"Expected 0 \(train\), 1 \(validation\) or 2 \(test\) in here, got 3"):
        given_split(np.array([0, 3]), "here")
    with pytest.raises(InputError, match="Expected a whole number an edge"):
        given_split(np.array([0.5]), "here")


@given(st.lists(st.one_of(st.integers(-5, 5), st.floats(-1e300, 1e300)), min_size=1, max_size=60), st.integers(1, 4))
def test_time_cuts_where_sorting_would(times: list[float], workers: int) -> None:
    """Also where several workers hold the edges: each hears only sums."""
    time, shares = np.array(times, np.float64), EdgeShares(60, 20, 20)
    ranked = np.sort(time)
    ends = [ranked[max(round(len(time) * end) - 1, 0)] if round(len(time) * end) else -np.inf for end in shares.ends]
    expected = (time > ends[0]).astype(int) + (time > ends[1])
    np.testing.assert_array_equal(time_split(time, shares, alone), expected)


def test_time_of_whole_numbers_is_exact() -> None:
    time = np.array([2**60, 2**60 + 1, 2**60 + 2, 2**60 + 3], np.int64)
    assert time_split(time, EdgeShares(50, 25, 25), alone).tolist() == [0, 0, 1, 2]
    with pytest.raises(InputError, match="Expected a number for the time"):
        time_split(np.array([1.0, np.nan]), EdgeShares(50, 25, 25), alone)


EDGES = [(0, 1, 0), (1, 0, 1), (2, 3, 0), (3, 2, 2), (4, 5, 1), (4, 5, 2), (6, 7, 2), (6, 7, 2), (8, 9, 0)]
"""Source, destination, split."""


def test_leaks_by_hand() -> None:
    source, destination, split = np.array(EDGES).T
    late = earlier_elsewhere(EdgeNames(source, destination), split.astype(np.uint8), lambda values: [values])
    assert np.flatnonzero(late).tolist() == [1, 3, 5]  # the reverse of a training edge, twice; a test edge in validation
    relation = np.array([0, 0, 0, 1, 0, 1, 0, 0, 0])
    late = earlier_elsewhere(EdgeNames(source, destination, relation), split.astype(np.uint8), lambda values: [values])
    assert not late.any()
    relation[5] = 0
    late = earlier_elsewhere(EdgeNames(source, destination, relation), split.astype(np.uint8), lambda values: [values])
    assert np.flatnonzero(late).tolist() == [5]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2)), max_size=40))
def test_leaks_are_those_of_a_slow_search(edges: list[tuple[int, int, int]]) -> None:
    source, destination, split = np.array(edges, np.int64).reshape(-1, 3).T
    late = earlier_elsewhere(EdgeNames(source, destination), split.astype(np.uint8), lambda values: [values])
    for i, (s, d, code) in enumerate(edges):
        assert late[i] == any({s, d} == {a, b} and other < code for a, b, other in edges)
