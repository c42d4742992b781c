from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw, draw_below, draw_unit, mix64, permutation, stream_key, units

KEY = stream_key(7, "sample", epoch=3, step=11)
WORD = 2**64
words = st.integers(0, WORD - 1)


def mix64_slowly(value: int) -> int:
    """The twin, in Python's unbounded integers."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % WORD
    return value ^ (value >> 31)


def draw_slowly(key: int, node: int, slot: int) -> int:
    absorbed = mix64_slowly((key + node * 0xD1342543DE82EF95 + 0x9E3779B97F4A7C15) % WORD)
    return mix64_slowly(absorbed ^ ((slot * 0xA0761D6478BD642F + 0x9E3779B97F4A7C15) % WORD))


@compiled
def fill_below(key: np.uint64, by_slot: bool, bound: int, out: NDArray[np.int64]) -> None:
    for i in range(len(out)):
        out[i] = draw_below(key, 5, i, bound) if by_slot else draw_below(key, i, 0, bound)


def assert_even(counts: NDArray[np.int64]) -> None:
    """Pearson's chi-square of equally likely cells lies within five standard deviations of what chance gives."""
    expected, freedom = counts.sum() / counts.size, counts.size - 1
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_square - freedom) < 5 * np.sqrt(2 * freedom)


def test_the_first_output_of_splitmix64() -> None:
    # The published generator started at 0 gives 0xE220A8397B1DCDAF: the mixer applied to its golden-ratio step.
    assert mix64(np.uint64(0x9E3779B97F4A7C15)) == 0xE220A8397B1DCDAF


def test_recorded_numbers_stay_as_they_are() -> None:
    """Every artifact made with a seed depends on these. A change here changes them all."""
    assert int(stream_key(0, "")) == 0x33EA6333744E8E9F
    assert int(KEY) == 0x949424593F8BD227
    assert [int(draw(KEY, node, slot)) for node, slot in ((0, 0), (0, 1), (1, 0), (2**40, 5))] == [
        0xFBA269964591C47C,
        0x7B97EA5E001E6493,
        0xC9390987283F4DFF,
        0xC80569DE23A65B58,
    ]
    assert draw_unit(KEY, 0, 0) == 0.9829469673036959
    assert units(KEY, 5, 3, slot=2).tolist() == [0.7831005448273171, 0.12775009675781324, 0.7423489644144361]
    assert [draw_below(KEY, node, 0, 10) for node in range(8)] == [9, 7, 3, 9, 1, 8, 5, 4]
    assert permutation(KEY, 8).tolist() == [4, 2, 7, 6, 1, 5, 0, 3]


@given(words)
def test_mix64_is_its_twin(value: int) -> None:
    assert mix64(np.uint64(value)) == mix64_slowly(value)


@given(words, st.integers(0, 2**62), st.integers(0, 2**40))
def test_draw_is_its_twin(key: int, node: int, slot: int) -> None:
    expected = draw_slowly(key, node, slot)
    assert draw(np.uint64(key), node, slot) == expected
    assert draw_unit(np.uint64(key), node, slot) == (expected >> 11) / 2**53


@given(words, st.integers(0, 2**40), st.integers(1, 2**32 - 1))
def test_draw_below_is_its_twin_and_below(key: int, node: int, bound: int) -> None:
    number = draw_below(np.uint64(key), node, 0, bound)
    assert number == (draw_slowly(key, node, 0) >> 32) * bound >> 32
    assert 0 <= number < bound


def test_draw_below_stays_a_whole_number_inside_kernels() -> None:
    @compiled
    def drawn_or(key: np.uint64, otherwise: int) -> int:
        return draw_below(key, 0, 0, 10) if otherwise < 0 else otherwise

    # Numba would make a float of what is unsigned on one way and signed on another.
    assert type(drawn_or(KEY, -1)) is int
    assert (drawn_or(KEY, -1), drawn_or(KEY, 3)) == (9, 3)


@pytest.mark.parametrize("by_slot", [False, True], ids=["over nodes", "over slots"])
@pytest.mark.parametrize("bound", [2, 7, 100])
def test_draw_below_is_even(bound: int, by_slot: bool) -> None:
    numbers = np.empty(200_000, np.int64)
    fill_below(KEY, by_slot, bound, numbers)
    assert_even(np.bincount(numbers, minlength=bound))


def test_every_bit_of_draw_is_even() -> None:
    bits = np.array([int(draw(KEY, node, 0)) for node in range(20_000)], np.uint64)
    ones = [int(((bits >> np.uint64(k)) & np.uint64(1)).sum()) for k in range(64)]
    assert max(abs(count - 10_000) for count in ones) < 5 * np.sqrt(20_000 / 4)


NEIGHBOURS = {
    "slot": (units(KEY, 0, 100_000, slot=0), units(KEY, 0, 100_000, slot=1)),
    "node": (units(KEY, 0, 100_000), units(KEY, 1, 100_000)),
    "step": (units(stream_key(1, "a", 0, 0), 0, 100_000), units(stream_key(1, "a", 0, 1), 0, 100_000)),
    "epoch": (units(stream_key(1, "a", 0), 0, 100_000), units(stream_key(1, "a", 1), 0, 100_000)),
    "stream": (units(stream_key(1, "a"), 0, 100_000), units(stream_key(1, "b"), 0, 100_000)),
    "seed": (units(stream_key(1, "a"), 0, 100_000), units(stream_key(2, "a"), 0, 100_000)),
    "key": (units(np.uint64(5), 0, 100_000), units(np.uint64(6), 0, 100_000)),
}


@pytest.mark.parametrize("what", NEIGHBOURS)
def test_neighbours_are_independent(what: str) -> None:
    first, second = NEIGHBOURS[what]
    cells = (first * 10).astype(int) * 10 + (second * 10).astype(int)
    assert_even(np.bincount(cells, minlength=100))
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(len(first))


def test_units_are_draw_unit_for_each_node() -> None:
    assert units(KEY, 100, 4, slot=3).tolist() == [draw_unit(KEY, node, 3) for node in range(100, 104)]
    assert units(KEY, 0, 0).tolist() == []
    many = units(KEY, 0, 100_000)
    assert 0 <= many.min() < many.max() < 1


@given(st.integers(0, 300), words)
def test_a_permutation_has_everyone_once(count: int, key: int) -> None:
    order = permutation(np.uint64(key), count)
    assert sorted(order.tolist()) == list(range(count))
    assert order.tolist() == sorted(range(count), key=lambda i: draw_slowly(key, i, 0))


def test_permutations_put_everyone_everywhere_equally_often() -> None:
    seen = np.zeros((6, 6), np.int64)
    for step in range(6_000):
        seen[np.arange(6), permutation(stream_key(0, "order", step=step), 6)] += 1
    for row in seen:
        assert_even(row)


@given(
    st.lists(
        st.tuples(st.integers(-5, 2**70), st.text(max_size=6), st.integers(0, 99), st.integers(0, 99)),
        min_size=2,
        max_size=2,
        unique=True,
    )
)
def test_keys_differ_where_anything_differs(pair: list[tuple[int, str, int, int]]) -> None:
    first, second = (stream_key(seed, stream, epoch, step) for seed, stream, epoch, step in pair)
    assert first != second


def test_a_slash_in_a_name_is_not_a_step() -> None:
    assert len({int(stream_key(1, "a/2", 3, 4)), int(stream_key(1, "a", 2, 3)), int(stream_key(1, "a/2/3", 4, 0))}) == 3
