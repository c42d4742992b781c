"""Stable radix order against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from starling.kernels.radix import invert, stable_order

KEYS = hnp.arrays(np.int64, st.integers(0, 60), elements=st.integers(0, 1 << 40))


def test_equal_keys_keep_their_order() -> None:
    assert stable_order(np.array([3, 1, 3, 0, 1], np.int32), 3).tolist() == [3, 1, 4, 0, 2]


@settings(deadline=None)
@given(KEYS)
def test_is_numpys_stable_order(keys: np.ndarray) -> None:
    assert stable_order(keys, 1 << 40).tolist() == np.argsort(keys, kind="stable").tolist()


@settings(deadline=None)
@given(hnp.arrays(np.uint16, st.integers(0, 60)), st.data())
def test_two_keys_sort_lexicographically(important: np.ndarray, data: st.DataObject) -> None:
    minor = data.draw(hnp.arrays(np.int32, len(important), elements=st.integers(0, 5)))
    order = stable_order(important, 65535, stable_order(minor, 5))
    assert order.tolist() == np.lexsort([minor, important]).tolist()


def test_inverse_undoes_the_order() -> None:
    order = np.array([2, 0, 3, 1], np.int32)
    inverse = np.empty(4, np.int32)
    invert(order, inverse)
    assert inverse.tolist() == [1, 3, 0, 2]
