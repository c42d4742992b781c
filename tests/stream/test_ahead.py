from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from starling.stream.ahead import read_ahead


def test_items_come_in_order_and_from_another_thread() -> None:
    threads = set()

    def items() -> Iterator[int]:
        for number in range(5):
            threads.add(threading.get_ident())
            yield number

    assert list(read_ahead(items())) == [0, 1, 2, 3, 4]
    assert threading.get_ident() not in threads
    assert list(read_ahead([])) == []


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
