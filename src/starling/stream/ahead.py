"""Read the next block while the last one is being worked on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from numpy.typing import NDArray

from starling.core.npy import NpyReader

Item = TypeVar("Item")

_END = object()


def read_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items in the same order, each fetched by a thread of its own while the caller handles the one before it."""
    source = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="starling-ahead") as pool:
        coming = pool.submit(next, source, _END)
        while (item := coming.result()) is not _END:
            coming = pool.submit(next, source, _END)
            yield item  # type: ignore[misc]  # not the end, so an item


def blocks_ahead(reader: NpyReader, size: int) -> Iterator[NDArray[Any]]:
    """All rows of a file, `size` at a time, read ahead; one block needs no thread, and there may be thousands of small files."""
    blocks = reader.blocks(size)
    return blocks if reader.rows <= size else read_ahead(blocks)
