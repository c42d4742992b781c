"""Rows by key against NumPy's stable sort: in windows, through buckets, with counts known or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.store.sharding.by_key import readings, rows_by_key
from starling.store.sharding.rows import Column, KeyedRows, RowSource


class Counter:
    """A task that remembers how far it was told to be."""

    def __init__(self) -> None:
        self.total = 0

    def advance(self, amount: int) -> None:
        self.total += amount


def source_of(keys: np.ndarray, limit: int, block: int, *, counted: bool) -> RowSource:
    values = {"arrival": np.arange(len(keys)), "pair": np.stack([keys, -keys], 1).astype(np.int16)}

    def blocks() -> Iterator[KeyedRows]:
        for start in range(0, len(keys), block):
            part = slice(start, start + block)
            yield KeyedRows(keys[part], {name: rows[part] for name, rows in values.items()})

    columns = {name: Column(rows.dtype, rows.shape[1:]) for name, rows in values.items()}
    ends = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=limit))])
    return RowSource(columns, blocks, len(keys), limit, ends=ends if counted else None, sample=None if counted else keys[::2])


def sorted_rows(source: RowSource, memory: int, threads: int | None = None) -> dict[str, np.ndarray]:
    found: dict[str, list[np.ndarray]] = {name: [] for name in source.columns}
    task = Counter()
    with TemporaryDirectory() as scratch:
        for name, block in rows_by_key(source, scratch=Path(scratch), memory=memory, threads=threads, task=task):
            found[name].append(block.copy())
    assert task.total == source.count * readings(source, memory)
    return {name: np.concatenate(blocks) for name, blocks in found.items() if blocks}


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 19) | st.just(7), min_size=1, max_size=60),
    st.integers(1, 2000),
    st.integers(1, 70),
    st.booleans(),
    st.sampled_from([1, 2, 3]),
)
def test_is_a_stable_sort(numbers: list[int], memory: int, block: int, counted: bool, threads: int) -> None:
    keys = np.array(numbers, np.int32)
    found = sorted_rows(source_of(keys, 20, block, counted=counted), memory, threads)
    order = np.argsort(keys, kind="stable")
    assert np.array_equal(found["arrival"], order)
    assert np.array_equal(found["pair"], np.stack([keys, -keys], 1)[order])


def test_no_rows_give_nothing() -> None:
    for counted in (True, False):
        assert sorted_rows(source_of(np.zeros(0, np.int32), 5, 4, counted=counted), 100) == {}


@pytest.mark.parametrize(("memory", "expected"), [(10_000, 1), (1_000, 2), (400, 5), (300, 1)])
def test_the_source_is_read_once_a_window_and_seldom(memory: int, expected: int) -> None:
    """100 rows of 12 bytes and 8 for a cursor each; more than six windows go through buckets, read once."""
    keys = np.arange(100, dtype=np.int32)[::-1].copy()
    source = source_of(keys, 100, 9, counted=True)
    assert readings(source, memory) == expected
    assert np.array_equal(sorted_rows(source, memory)["arrival"], np.arange(100)[::-1])
