from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from starling.core.npy import NpyReader
from starling.stream.ids.spool import IntegerSpool, TextSpool, hashes_of, new_spool, one_id
from starling.stream.room import Room

TINY = Room(600)
numbers = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))


@given(st.lists(st.lists(st.tuples(numbers, numbers), max_size=6), max_size=6))
def test_integer_pairs_come_back_flat_and_ranges_are_known(blocks: list[list[tuple[int, int]]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        spool = IntegerSpool(Path(directory) / "ids.npy", pairs=True)
        for block in blocks:
            array = np.array(block, np.int64).reshape(-1, 2)
            spool.append(array[:, 0], array[:, 1])
        spool.close()
        flat = [user for block in blocks for pair in block for user in pair]
        read = [user for block in spool.blocks(TINY) for user in block.tolist()]
        assert read == flat
        assert spool.ids == len(flat)
        if flat:
            assert (spool.low, spool.high) == (min(flat), max(flat))
        small = all(-(2**31) <= user < 2**31 for user in flat)
        assert NpyReader(spool.path).dtype == (np.int32 if small else np.int64)
        assert [path.name for path in Path(directory).iterdir()] == ["ids.npy"]


def test_single_ids_that_do_not_fit_widen_the_file(tmp_path: Path) -> None:
    spool = IntegerSpool(tmp_path / "ids.npy", pairs=False)
    spool.append(np.array([7, -1]))
    spool.append(np.array([2**31]))
    spool.append(np.array([3]))
    spool.close()
    assert np.load(spool.path).tolist() == [7, -1, 2**31, 3]
    assert (spool.low, spool.high, spool.rows) == (-1, 2**31, 4)


def test_store_as(tmp_path: Path) -> None:
    spool = IntegerSpool(tmp_path / "ids.npy", pairs=False)
    spool.append(np.array([1, 2]))
    spool.close()
    spool.store_as(np.int64)
    assert np.load(spool.path).dtype == np.int64
    assert np.load(spool.path).tolist() == [1, 2]


@given(st.lists(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=5), max_size=5))
def test_string_pairs_come_back_by_turns(blocks: list[list[tuple[str, str]]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        spool = TextSpool(Path(directory) / "ids.npy", pairs=True)
        for block in blocks:
            source, destination = (pa.array([pair[k] for pair in block], pa.string()) for k in (0, 1))
            spool.append(source, destination)
        spool.close()
        read = [user for texts in spool.blocks(TINY) for user in texts.to_arrow().to_pylist()]
        assert read == [user for block in blocks for pair in block for user in pair]
        spool.remove()
        assert not list(Path(directory).iterdir())


def test_blocks_hash_and_show_their_ids(tmp_path: Path) -> None:
    integers, texts = new_spool("integer", tmp_path / "a.npy"), new_spool("string", tmp_path / "b.npy")
    integers.append(np.array([5, -6]))
    texts.append(pa.array(["x", "né"]))
    for spool, last in ((integers, -6), (texts, "né")):
        spool.close()
        (block,) = spool.blocks(Room(1 << 20))
        assert one_id(block, 1) == last
        assert len(set(hashes_of(block).tolist())) == 2
