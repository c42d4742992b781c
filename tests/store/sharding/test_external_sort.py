"""The external sort against NumPy's stable sort, with memory for one row up to all."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.store.sharding.external_sort import KEY, ExternalSort
from starling.store.sharding.rows import Column, KeyedRows


def sorted_by(
    directory: Path, keys: np.ndarray, columns: dict[str, np.ndarray], memory: int, block: int, sample: np.ndarray
) -> dict[str, np.ndarray]:
    kinds = {name: Column(values.dtype, values.shape[1:]) for name, values in columns.items()}
    sorter = ExternalSort(directory, kinds, sample=sample, rows=len(keys), limit=1000, memory=memory)
    for start in range(0, len(keys), block):
        part = slice(start, start + block)
        sorter.add(KeyedRows(keys[part], {name: values[part] for name, values in columns.items()}))
    found: dict[str, list[np.ndarray]] = {name: [] for name in (KEY, *columns)}
    for run in sorter.runs():
        for name, blocks in found.items():
            blocks.extend(run.blocks(name))
    assert not [path for path in directory.rglob("*") if path.is_file()]
    empty = {KEY: keys, **columns}
    return {name: np.concatenate([empty[name][:0], *blocks]) for name, blocks in found.items()}


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 999) | st.sampled_from([7, 8, 999]), max_size=80),
    st.integers(1, 2000),
    st.integers(1, 90),
    st.booleans(),
)
def test_is_a_stable_sort_whatever_the_memory(numbers: list[int], memory: int, block: int, misled: bool) -> None:
    keys = np.array(numbers, np.int32)
    columns = {
        "arrival": np.arange(len(keys), dtype=np.int64),
        "row": np.arange(len(keys) * 3, dtype=np.float32).reshape(-1, 3),
        "odd": np.arange(len(keys), dtype=np.uint8).reshape(-1, 1),
    }
    sample = np.array([500], np.int32) if misled else keys
    with TemporaryDirectory() as directory:
        found = sorted_by(Path(directory), keys, columns, memory, block, sample)
    order = np.argsort(keys, kind="stable")
    assert np.array_equal(found[KEY], keys[order])
    for name, values in columns.items():
        assert found[name].dtype == values.dtype
        assert np.array_equal(found[name], values[order])


@pytest.mark.parametrize("memory", [1, 64, 1 << 20])
def test_one_key_with_every_row_is_only_copied(tmp_path: Path, memory: int) -> None:
    keys = np.full(5000, 3, np.int32)
    arrival = np.arange(5000)
    found = sorted_by(tmp_path, keys, {"arrival": arrival}, memory, 700, keys[:9])
    assert np.array_equal(found["arrival"], arrival)


@pytest.mark.parametrize("dtype", ["bool", "float16", "complex128", "S5", "u2"])
def test_any_type_is_moved_as_bits(tmp_path: Path, dtype: str) -> None:
    values = np.arange(20).astype(dtype)
    keys = np.arange(20, dtype=np.int32)[::-1].copy()
    assert np.array_equal(sorted_by(tmp_path, keys, {"value": values}, 60, 6, keys)["value"], values[::-1])
