"""Moving rows: gather, scatter and add, against NumPy's indexing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels import rows
from starling.kernels.rows import add_rows, gather_mapped_rows, gather_rows, rows_of, scatter_rows


def test_by_hand() -> None:
    out = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    add_rows(np.array([[10.0, 20.0], [30.0, 40.0]], np.float32), np.array([2, 0]), out)
    assert out.tolist() == [[31, 42], [3, 4], [15, 26]]
    found = np.empty((2, 2), np.float32)
    gather_rows(out, np.array([1, 1]), found)
    assert found.tolist() == [[3, 4], [3, 4]]
    scatter_rows(found, np.array([0, 2]), out)
    assert out.tolist() == [[3, 4], [3, 4], [3, 4]]
    assert (rows_of(out).count, rows_of(out).width, rows_of(out).stride) == (3, 2, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=st.integers(0, 1 << 16), rows=st.integers(0, 40), width=st.integers(0, 5))
def test_against_numpy(dtype: type[np.floating], seed: int, rows: int, width: int) -> None:
    draw = np.random.default_rng(seed)
    index = draw.permutation(50)[:rows]
    source, out = draw.normal(size=(rows, width)).astype(dtype), draw.normal(size=(50, width)).astype(dtype)
    expected = out.copy()
    expected[index] += source
    add_rows(source, index, out)
    assert np.array_equal(out, expected)
    expected[index] = source
    scatter_rows(source, index, out)
    assert np.array_equal(out, expected)
    found = np.empty_like(source)
    gather_rows(out, index, found)
    assert np.array_equal(found, source)


def test_many_rows_on_threads() -> None:
    draw = np.random.default_rng(0)
    index = draw.permutation(3000)[:2000]
    source, out = draw.normal(size=(2000, 40)).astype(np.float32), np.ones((3000, 40), np.float32)
    expected = out.copy()
    expected[index] += source
    add_rows(source, index, out, threads=3)
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("held", [1 << 24, 1 << 17])
def test_gather_from_a_mapped_file(tmp_path: Path, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces of two rows where little may be held, and in one piece where rows lie together."""
    monkeypatch.setattr(rows, "_HELD_BYTES", held)
    matrix = np.random.default_rng(0).random((3000, 33), np.float32)
    np.save(tmp_path / "x.npy", matrix)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    pages = mapped._mmap
    for index in (np.array([2999, 0, 7, 1500, 7]), np.arange(40, 90), np.arange(0)):
        out = np.empty((len(index), 33), np.float32)
        gather_mapped_rows(np.asarray(mapped), pages, index, out)
        np.testing.assert_array_equal(out, matrix[index])
