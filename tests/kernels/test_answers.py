from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.answers import Answers, put_in_order
from starling.kernels.buckets import Buckets, arrange_by_bucket


def test_values_come_back_in_the_order_of_the_records_by_hand(tmp_path: Path) -> None:
    with Answers(tmp_path, 3, np.int32) as answers:
        answers.append(2, np.array([20, 21]))
        answers.append(0, np.array([1]))
        answers.append(2, np.array([22]))
        assert answers.gather(np.array([2, 0], np.uint8)).tolist() == [20, 1]
        assert answers.gather(np.array([2, 2], np.uint8)).tolist() == [21, 22]
        assert answers.read(2, 1, 5).tolist() == [21, 22]
        with pytest.raises(ValueError, match="bucket 1"):
            answers.gather(np.array([1], np.uint8))
    assert not list(tmp_path.iterdir())


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-(2**40), 2**40)), max_size=60), st.integers(1, 7))
def test_buckets_there_and_answers_back(records: list[tuple[int, int]], size: int) -> None:
    bucket = np.array([number for number, _ in records], np.uint8)
    values = np.array([value for _, value in records], np.int64)
    with (
        tempfile.TemporaryDirectory() as directory,
        Buckets(Path(directory) / "out", 5, np.int64, 1) as out,
        Answers(Path(directory) / "back", 5, np.int64) as back,
    ):
        for start in range(0, len(records), size):
            out.append(bucket[start : start + size], values[start : start + size])
        out.finish()
        for number in range(5):
            for chunk in out.chunks(number, size):
                back.append(number, 2 * chunk.reshape(-1))
        # Blocks on the way back need not be those of the way out.
        came = [back.gather(bucket[start : start + size + 1]) for start in range(0, len(records), size + 1)]
    assert [value for block in came for value in block.tolist()] == (2 * values).tolist()


def test_put_in_order_undoes_arranging() -> None:
    bucket = np.array([1, 0, 1, 2, 0], np.uint8)
    records = np.array([[10], [11], [12], [13], [14]])
    bounds, arranged = np.zeros(4, np.int64), np.empty_like(records)
    arrange_by_bucket(bucket, records, bounds, arranged)
    values = np.empty(5, records.dtype)
    put_in_order(bucket, bounds[:-1].copy(), arranged.reshape(-1), values)
    assert values.tolist() == [10, 11, 12, 13, 14]
