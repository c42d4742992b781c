from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.kernels.lanes import add_scattered


def test_by_hand() -> None:
    x = np.array([[1, 2, 3], [10, 20, 30], [100, 200, 300]], np.float32)
    total = np.array([0.5, 0, 0, 7], np.float32)
    add_scattered(total, 0, x.reshape(-1), 0, 3, np.array([9, 2, 0, 2], np.int32), 1, 3, np.array([1, 2, 3], np.float32), 3)
    assert total.tolist() == [402.5, 804, 1206, 7]  # 1·row 2 + 2·row 0 + 3·row 2; what lies behind the columns stays


@pytest.mark.parametrize("stored", [np.float32, np.float64, np.uint16])
@settings(max_examples=25, deadline=None)
@given(width=st.integers(1, 150), count=st.integers(0, 40), seed=st.integers(0, 99))
def test_equals_numpy(stored: type, width: int, count: int, seed: int) -> None:
    """Whole numbers, so that any order of adding gives the same; columns left and right of those asked for stay."""
    generator = np.random.default_rng(seed)
    rows, stride, shift, to, first = 20, width + 5, 2, 3, 1
    values = generator.integers(-8, 9, (rows, stride)).astype(np.float64)
    kind = np.float64 if stored is np.float64 else np.float32
    x = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) if stored is np.uint16 else values.astype(stored)
    neighbours = generator.integers(0, rows, count + first).astype(np.int32)
    weight = generator.integers(-3, 4, max(count, 1)).astype(kind)
    total = generator.integers(-9, 9, width + 8).astype(kind)
    expected = total.copy()
    expected[to : to + width] += weight[:count] @ values[neighbours[first:], shift : shift + width].astype(kind)
    add_scattered(total, to, x.reshape(-1), shift, stride, neighbours, first, count, weight, width)
    np.testing.assert_array_equal(total, expected)
