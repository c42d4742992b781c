from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.core.keyed import draw, permutation, stream_key
from starling.kernels.keyed_order import keyed_bits, keyed_order


@given(st.lists(st.integers(0, 2**40), unique=True), st.integers(0, 9))
def test_the_order_of_two_does_not_depend_on_the_others(positions: list[int], seed: int) -> None:
    key = stream_key(seed, "order")
    whole = np.array(positions, np.int64)[keyed_order(key, np.array(positions, np.int64))].tolist()
    half = positions[::2]
    assert np.array(half, np.int64)[keyed_order(key, np.array(half, np.int64))].tolist() == [p for p in whole if p in half]
    assert keyed_bits(key, np.array(positions, np.int64), 3).tolist() == [draw(key, p, 3) for p in positions]


def test_it_is_the_permutation_where_positions_are_all_there() -> None:
    key = stream_key(4, "order")
    np.testing.assert_array_equal(keyed_order(key, np.arange(1000)), permutation(key, 1000))
