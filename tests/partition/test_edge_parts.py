"""Edge parts come back as they went in, from memory or from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.partition.edge_parts import EdgeParts, part_blocks


@pytest.mark.parametrize("on_disk", [False, True])
def test_parts_come_back(on_disk: bool, tmp_path: Path) -> None:
    with EdgeParts(5, tmp_path if on_disk else None) as writer:
        writer.append(np.array([3, 65534], np.uint16))
        writer.append(np.array([], np.uint16))
        writer.append(np.array([0, 1, 2], np.uint16))
        parts = writer.finish()
    assert parts.tolist() == [3, 65534, 0, 1, 2]
    assert not parts.flags.writeable
    assert [block.tolist() for block in part_blocks(parts, 2)] == [[3, 65534], [0, 1], [2]]
    assert (tmp_path / "edge_part.npy").exists() == on_disk


@pytest.mark.parametrize("on_disk", [False, True])
def test_no_edges(on_disk: bool, tmp_path: Path) -> None:
    parts = EdgeParts(0, tmp_path if on_disk else None).finish()
    assert parts.shape == (0,)
    assert list(part_blocks(parts)) == []


def test_blocks_of_a_slice_of_a_map_are_the_slice(tmp_path: Path) -> None:
    with EdgeParts(6, tmp_path) as writer:
        writer.append(np.arange(6, dtype=np.uint16))
        parts = writer.finish()
    assert [block.tolist() for block in part_blocks(parts[2:], 3)] == [[2, 3, 4], [5]]
    assert [block.tolist() for block in part_blocks(parts[::2])] == [[0, 2, 4]]


def test_blocks_of_a_file_are_read_not_mapped(tmp_path: Path) -> None:
    with EdgeParts(3, tmp_path) as writer:
        writer.append(np.arange(3, dtype=np.uint16))
        (block,) = part_blocks(writer.finish())
    assert not isinstance(block, np.memmap)


def test_a_failed_pass_closes_its_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), EdgeParts(3, tmp_path) as writer:
        raise RuntimeError
    assert writer._writer is not None
    assert writer._writer._file.closed
