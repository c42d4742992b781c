from __future__ import annotations

import errno
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.buckets import Buckets

FULL = Path("/dev/full")

blocks_of_records = st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(-(2**40), 2**40)), max_size=20), max_size=6)


@given(blocks_of_records, st.integers(1, 9))
def test_records_come_back_by_bucket_in_order_of_arrival(blocks: list[list[tuple[int, int]]], rows: int) -> None:
    expected: list[list[list[int]]] = [[], [], [], []]
    with TemporaryDirectory() as place, Buckets(Path(place), 4, np.int64, 2) as buckets:
        for block in blocks:
            numbers = np.array([number for number, _ in block], np.int32)
            records = np.array([[value, -value] for _, value in block], np.int64).reshape(-1, 2)
            buckets.append(numbers, records)
            for (number, _), record in zip(block, records.tolist(), strict=True):
                expected[number].append(record)
        buckets.finish()
        assert buckets.sizes.tolist() == [len(records) for records in expected]
        for number in range(4):
            assert buckets.read(number).tolist() == expected[number]
            chunks = list(buckets.chunks(number, rows))
            assert all(len(chunk) <= rows for chunk in chunks)
            assert [record for chunk in chunks for record in chunk.tolist()] == expected[number]


def test_records_take_the_type_of_the_buckets(tmp_path: Path) -> None:
    with Buckets(tmp_path, 1, np.uint16, 1) as buckets:
        buckets.append(np.zeros(2, np.int64), np.array([1, 65_535]))
        assert buckets.finish().read(0).dtype == np.uint16
        assert buckets.read(0).tolist() == [[1], [65_535]]


def test_leaving_removes_the_files_even_after_an_error(tmp_path: Path) -> None:
    def fail() -> None:
        with Buckets(tmp_path / "new", 3, np.int32, 1) as buckets:
            buckets.append(np.array([0, 2]), np.array([1, 2]))
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert list((tmp_path / "new").iterdir()) == []


def test_removing_one(tmp_path: Path) -> None:
    with Buckets(tmp_path, 2, np.int32, 1) as buckets:
        buckets.append(np.array([0, 1]), np.array([5, 6]))
        buckets.finish().remove(0)
        assert [path.name for path in tmp_path.iterdir()] == ["bucket-00001"]
        assert buckets.read(1).tolist() == [[6]]


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("count", [1, 100_000])
def test_a_full_disk_is_noticed_however_little_is_written(count: int, tmp_path: Path) -> None:
    (tmp_path / "bucket-00001").symlink_to(FULL)

    def write() -> None:
        with Buckets(tmp_path, 3, np.int64, 1) as buckets:
            buckets.append(np.full(count, 1), np.arange(count))

    with pytest.raises(OSError, match="No space") as caught:
        write()
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []
