"""A sequence laid out over several files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.store.sharding.part_files import PartFiles


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(1, 9))
def test_each_file_has_its_rows(tmp_path_factory: pytest.TempPathFactory, sizes: list[int], block: int) -> None:
    directory = tmp_path_factory.mktemp("files")
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.arange(2 * bounds[-1], dtype=np.int16).reshape(-1, 2)
    paths = [directory / f"{part}.npy" for part in range(len(sizes))]
    with PartFiles(paths, bounds, np.int16, (2,)) as files:
        for start in range(0, len(rows), block):
            files.append(rows[start : start + block])
    for part, path in enumerate(paths):
        assert np.array_equal(np.load(path), rows[bounds[part] : bounds[part + 1]])


def test_missing_rows_are_noticed(tmp_path: Path) -> None:
    files = PartFiles([tmp_path / "0.npy", tmp_path / "1.npy"], np.array([0, 2, 4]), np.int32)
    files.append(np.arange(3))
    with pytest.raises(ValueError, match="3 rows were written where 4 belong"):
        files.close()
    files.append(np.arange(1))
    files.close()
