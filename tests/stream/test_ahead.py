from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from starling.core.npy import NpyReader
from starling.stream.ahead import blocks_ahead, read_ahead


def test_items_come_in_order_and_from_another_thread() -> None:
    threads = set()

    def items() -> Iterator[int]:
        for number in range(5):
            threads.add(threading.get_ident())
            yield number

    assert list(read_ahead(items())) == [0, 1, 2, 3, 4]
    assert threading.get_ident() not in threads
    assert list(read_ahead([])) == []


def test_files_of_one_block_and_of_several(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.arange(10))
    reader = NpyReader(tmp_path / "rows.npy")
    for size, lengths in ((10, [10]), (4, [4, 4, 2])):
        blocks = list(blocks_ahead(reader, size))
        assert [len(block) for block in blocks] == lengths
        assert np.concatenate(blocks).tolist() == list(range(10))


def test_an_error_comes_where_the_item_would_have() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise KeyError("broken")

    ahead = read_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(KeyError, match="broken"):
        next(ahead)


def test_stopping_early_ends_the_source() -> None:
    ended = threading.Event()

    def items() -> Iterator[int]:
        try:
            yield from range(1_000_000)
        finally:
            ended.set()

    ahead = read_ahead(items())
    assert next(ahead) == 0
    ahead.close()
    del ahead
    assert ended.wait(10)
