"""Features by row, from wherever they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.core.npy import map_array
from starling.engine.features import DenseFeatures, Features, SparseFeatures, SpreadFeatures, in_memory, normalized
from starling.store.graph import CsrTable

MATRIX = np.arange(24, dtype=np.float32).reshape(8, 3) - 4


def sparse(matrix: NDArray[Any]) -> SparseFeatures:
    row, column = np.nonzero(matrix)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(matrix)))])
    return SparseFeatures(CsrTable(offsets, column, matrix[row, column], matrix.shape))


def spread(matrix: NDArray[Any]) -> SpreadFeatures:
    order = np.array([3, 1, 7, 0, 2, 6, 5, 4])  # the node at each place of the shards
    place = np.argsort(order)
    shards = [DenseFeatures(matrix[order[:3]]), DenseFeatures(matrix[:0]), sparse(matrix[order[3:]])]
    return SpreadFeatures(shards, place)


MAKERS = {"dense": DenseFeatures, "sparse": sparse, "spread": spread}


@pytest.mark.parametrize("maker", MAKERS)
@given(index=st.lists(st.integers(0, 7), max_size=20))
def test_rows(maker: str, index: list[int]) -> None:
    features: Features = MAKERS[maker](MATRIX)
    rows = features.rows(np.array(index, np.int64))
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, MATRIX[index])
    np.testing.assert_array_equal(features.all(), MATRIX)
    np.testing.assert_array_equal(in_memory(features).all(), MATRIX)


def test_mapped_rows_of_another_type(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", MATRIX.astype(np.float16))
    features = DenseFeatures(map_array(tmp_path / "x.npy"))
    for _ in range(2):  # pages given back are read again
        np.testing.assert_array_equal(features.rows(np.array([5, 0, 5])), MATRIX[[5, 0, 5]])


def test_rows_divided_by_their_sum() -> None:
    scaled = normalized(DenseFeatures(np.array([[1, 3], [0, 0], [2, -2]], np.float32)), "rows", np.arange(3))
    np.testing.assert_array_equal(scaled.all(), [[0.25, 0.75], [0, 0], [2, -2]])


def test_columns_scaled_by_the_training_rows() -> None:
    raw = DenseFeatures(np.array([[1, 5], [3, 5], [100, 5]], np.float32))
    scaled = normalized(raw, "standard", np.array([0, 1]))
    np.testing.assert_allclose(scaled.all(), [[-1, 0], [1, 0], [98, 0]])  # mean 2, deviation 1; a constant stays 0
    np.testing.assert_array_equal(raw.all()[:, 0], [1, 3, 100])
    assert normalized(raw, "none", np.arange(2)) is raw
