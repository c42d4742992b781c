"""DGL's tensor files against one that DGL 1.1.3 wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.store.foreign.dgl_tensors import read_dgl_tensors, write_dgl_tensors

# dgl.data.utils.save_tensors(path, {"a": arange(3), "bb": ones(2, 3), "c": arange(4, dtype=int32)})
BY_DGL = bytes.fromhex(
    "3f44a23fbe9f5add030000000000000003000000000000000100000000000000633fa1b496f0405edd000000000000000001000000000000"
    "0001000000002001000400000000000000100000000000000000000000010000000200000003000000020000000000000062623fa1b496f0"
    "405edd0000000000000000010000000000000002000000022001000200000000000000030000000000000018000000000000000000803f00"
    "00803f0000803f0000803f0000803f0000803f0100000000000000613fa1b496f0405edd0000000000000000010000000000000001000000"
    "0040010003000000000000001800000000000000000000000000000001000000000000000200000000000000"
)
TENSORS = {"c": np.arange(4, dtype=np.int32), "bb": np.ones((2, 3), np.float32), "a": np.arange(3)}


def test_a_file_of_dgl_is_read(tmp_path: Path) -> None:
    (tmp_path / "tensors.dgl").write_bytes(BY_DGL)
    found = read_dgl_tensors(tmp_path / "tensors.dgl")
    assert set(found) == set(TENSORS)
    for name, values in TENSORS.items():
        assert found[name].dtype == values.dtype
        assert np.array_equal(found[name], values)


def test_what_is_written_is_what_dgl_writes(tmp_path: Path) -> None:
    write_dgl_tensors(tmp_path / "tensors.dgl", TENSORS)
    assert (tmp_path / "tensors.dgl").read_bytes() == BY_DGL


@pytest.mark.parametrize("length", [*range(0, len(BY_DGL), 7), len(BY_DGL) - 1])
def test_a_truncated_file_is_refused(tmp_path: Path, length: int) -> None:
    (tmp_path / "tensors.dgl").write_bytes(BY_DGL[:length])
    with pytest.raises(InputError, match="ends too early"):
        read_dgl_tensors(tmp_path / "tensors.dgl")


@pytest.mark.parametrize(
    ("at", "sentence"), [(0, "not a file of tensors"), (8, "not a file of tensors"), (0x21, "cannot be read")]
)
def test_a_damaged_file_is_refused(tmp_path: Path, at: int, sentence: str) -> None:
    damaged = bytearray(BY_DGL)
    damaged[at] ^= 0xFF
    (tmp_path / "tensors.dgl").write_bytes(damaged)
    with pytest.raises(InputError, match=sentence):
        read_dgl_tensors(tmp_path / "tensors.dgl")
