"""Rows in memory and rows in a scratch file are the same rows."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.errors import StarlingError
from starling.engine.row_table import RowTable


@pytest.mark.parametrize("memory", [0, 1 << 20])
@given(cuts=st.lists(st.integers(0, 30), max_size=4), index=st.lists(st.integers(0, 29), max_size=40))
def test_rows(memory: int, cuts: list[int], index: list[int]) -> None:
    values = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    table = RowTable(30, 3, memory=memory)
    assert table.on_disk == (memory == 0)
    bounds = sorted({0, 30, *cuts})
    for start, stop in itertools.pairwise(bounds):
        table.write(start, values[start:stop])
    np.testing.assert_array_equal(table.rows(np.array(index, np.int64)), values[index])
    np.testing.assert_array_equal(table.read(7, 19), values[7:19])


def test_no_rows() -> None:
    assert RowTable(0, 5, memory=0).read(0, 0).shape == (0, 5)


@pytest.mark.parametrize("shared", [False, True])
def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool) -> None:
    """Found out when the file is made: a page that cannot be written later would be a signal."""

    def full(file: int, start: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StarlingError, match=r"No room for 12\.0 KiB of nodes' rows in .*No space left on device"):
        RowTable(1024, 3, memory=0, path=tmp_path / "rows" if shared else None)


def test_rows_of_a_file_read_into_memory(tmp_path: Path) -> None:
    values = np.arange(60, dtype=np.float32).reshape(20, 3)
    table, out = RowTable(20, 3, memory=0, path=tmp_path / "rows"), np.empty((5, 3), np.float32)
    table.write(0, values)
    table.read_into(7, out)
    np.testing.assert_array_equal(out, values[7:12])
