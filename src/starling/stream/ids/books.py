"""Books of ids: number each new id, remember it, and know it again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.kernels.ids import move_numbers, number_hashes, number_texts
from starling.stream.ids.texts import Texts

Numbers = NDArray[np.uint32]
IsNew = NDArray[np.bool_]


class _HashTable:
    """Open addressing at most half full: the hash of a known id and its number plus one."""

    def __init__(self) -> None:
        self.known = 0
        self._keys, self._numbers = _empty_table(0)

    def _make_room(self, more: int) -> None:
        if 2 * (self.known + more) > len(self._keys):
            keys, numbers = _empty_table(max(len(self._keys), self.known + more))
            move_numbers(self._keys, self._numbers, keys, numbers)
            self._keys, self._numbers = keys, numbers


class IntegerBook(_HashTable):
    """Integer ids, known by their hashes (no two share one). Costs 24 bytes an id, up to twice that while it grows."""

    def number(self, hashes: NDArray[np.uint64]) -> tuple[Numbers, IsNew]:
        """The number of each id, counted by first appearance, and whether it is new here."""
        self._make_room(len(hashes))
        numbers, new = np.empty(len(hashes), np.uint32), np.empty(len(hashes), np.bool_)
        self.known = number_hashes(hashes, self._keys, self._numbers, self.known, numbers, new)
        return numbers, new


class TextBook(_HashTable):
    """String ids, kept whole and compared byte by byte where hashes agree."""

    def __init__(self) -> None:
        super().__init__()
        self._offsets: NDArray[np.int64] = np.zeros(1, np.int64)
        self._data: NDArray[np.uint8] = np.empty(0, np.uint8)

    def number(self, texts: Texts) -> tuple[Numbers, IsNew]:
        """The number of each id, counted by first appearance, and whether it is new here."""
        self._make_room(len(texts))
        self._offsets = _extended(self._offsets, self.known + 1 + len(texts))
        self._data = _extended(self._data, int(self._offsets[self.known]) + len(texts.data))
        numbers, new = np.empty(len(texts), np.uint32), np.empty(len(texts), np.bool_)
        self.known = number_texts(
            texts.offsets, texts.data, texts.hashes(), self._keys, self._numbers,
            self._offsets, self._data, self.known, numbers, new,
        )  # fmt: skip
        return numbers, new


def _empty_table(ids: int) -> tuple[NDArray[np.uint64], Numbers]:
    rows = 2 * max(ids, 8)
    return np.empty(rows, np.uint64), np.zeros(rows, np.uint32)


def _extended(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array with room for `size` elements, growing by half at least so that copies stay rare."""
    if size <= len(array):
        return array
    larger = np.empty(max(size, len(array) * 3 // 2), array.dtype)
    larger[: len(array)] = array
    return larger
