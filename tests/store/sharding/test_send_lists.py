"""Send lists are the halo lists seen from the other side, however little memory there is to turn them round."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.core.progress import SILENT
from starling.store.shard_layout import shard_name
from starling.store.sharding.send_lists import ROW_BYTES, write_send_lists
from tests.support.parts import Case, build, check_send_lists


@pytest.mark.parametrize("rows", [0, 2, 5])
def test_send_lists_in_little_memory(tmp_path: Path, rows: int) -> None:
    """One owner at a time, or a few: the lists are the same."""
    draw = np.random.default_rng(2)
    pairs, owner = draw.integers(0, 12, (40, 2), np.int32), draw.choice([0, 1, 3, 4], 12).astype(np.int32)
    case = Case(12, pairs, 6, owner, halo_hops=2)
    parts = build(case, tmp_path)
    check_send_lists(parts)
    folders = [parts.path / shard_name(part) for part in range(6)]
    written = {path: path.read_bytes() for folder in folders for path in folder.glob("send.*")}
    assert len(written) == 12
    for path in written:
        path.unlink()
    write_send_lists(folders, parts.offsets, 2, SILENT, memory=rows * ROW_BYTES)
    assert {path: path.read_bytes() for path in written} == written
