"""Ranges of a file, read in blocks, against slicing."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.npy import NpyReader
from starling.store.sharding import entry_ranges
from starling.store.sharding.entry_ranges import read_ranges


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> NpyReader:
    path: Path = tmp_path_factory.mktemp("ranges") / "numbers.npy"
    np.save(path, np.arange(200, dtype=np.int32))
    return NpyReader(path)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.integers(0, 200), max_size=20), st.sampled_from([4, 40, 4000]), st.sampled_from([4, 12, 400]))
def test_ranges_are_what_slices_give(reader: NpyReader, cuts: list[int], gap: int, block: int) -> None:
    bounds = np.sort(np.array(cuts[: len(cuts) // 2 * 2], np.int64)).reshape(-1, 2)
    expected = [number for low, high in bounds for number in range(low, high)]
    with patch.object(entry_ranges, "_GAP_BYTES", gap), patch.object(entry_ranges, "_BLOCK_BYTES", block):
        blocks = list(read_ranges(reader, bounds[:, 0], bounds[:, 1]))
    assert all(len(found) <= max(1, block // 4) for found in blocks)
    assert [int(number) for found in blocks for number in found] == expected
