"""Read the next block while the last one is being worked on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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
