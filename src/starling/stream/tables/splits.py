"""Train, val and test: checking that masks are disjoint, and making a random split where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw, stream_key
from starling.core.npy import NpyReader, NpyWriter

Draws = tuple[NDArray[np.uint64], NDArray[np.bool_]]
MASKS = ("train", "val", "test")

_BLOCK = 1 << 18
_HIGH = np.uint64(48)  # the high 16 bits of a draw choose its range


def first_overlap(one: Path, other: Path) -> int | None:
    """The first row that is true in both masks."""
    start = 0
    second = NpyReader(other)
    for block in NpyReader(one).blocks(_BLOCK):
        both = np.flatnonzero(block & second.read(start, start + len(block)))
        if len(both):
            return start + int(both[0])
        start += len(block)
    return None


@dataclass(frozen=True)
class Shares:
    """Percentages of the rows that may be drawn; what is left to 100 belongs to no mask."""

    train: float
    val: float
    test: float

    def ends(self, count: int) -> list[int]:
        """Of `count` rows in random order, where each mask ends."""
        return [round(count * percent / 100) for percent in np.cumsum([self.train, self.val, self.test]).tolist()]


def draw_split(rows: int, labels: Path | None, shares: Shares, seed: int, targets: dict[str, Path]) -> dict[str, int]:
    """Write random masks over the labelled rows, or all rows without labels; returns the size of each.

    Each row draws a number keyed by the seed; the smallest are train, the next val, then test. All draws differ, so shares
    are exact to the row. Where to cut is found with a histogram and the few draws that fall in the ranges of the cuts: two
    passes, and no memory that grows with the graph.
    """
    key = stream_key(seed, "split")
    histogram = np.zeros(1 << 16, np.int64)
    for draws, drawn in _draws(rows, labels, key):
        histogram += np.bincount((draws[drawn] >> _HIGH).astype(np.int64), minlength=len(histogram))
    ends = shares.ends(int(histogram.sum()))
    cuts = _find_cuts(_draws(rows, labels, key), histogram, ends)
    with ExitStack() as open_files:
        writers = [open_files.enter_context(NpyWriter(targets[mask], np.bool_)) for mask in MASKS]
        for draws, drawn in _draws(rows, labels, key):
            taken = np.zeros(len(draws), np.bool_)
            for writer, cut, end in zip(writers, cuts, ends, strict=True):
                first_ones = drawn & (draws <= cut) if end else taken
                writer.append(first_ones & ~taken)
                taken = first_ones
    return dict(zip(MASKS, np.diff([0, *ends]).tolist(), strict=True))


def _find_cuts(blocks: Iterable[Draws], histogram: NDArray[np.int64], ends: list[int]) -> list[np.uint64]:
    """For each end, the largest of that many smallest draws."""
    before = np.concatenate([[0], np.cumsum(histogram)])
    ranges = [int(np.searchsorted(before, end)) - 1 for end in ends]
    wanted: dict[int, list[NDArray[np.uint64]]] = {number: [] for number in ranges if number >= 0}
    for draws, drawn in blocks:
        high = (draws >> _HIGH).astype(np.int64)
        for number, found in wanted.items():
            found.append(draws[drawn & (high == number)])
    ordered = {number: np.sort(np.concatenate(found)) for number, found in wanted.items()}
    return [
        ordered[number][end - before[number] - 1] if end else np.uint64(0) for number, end in zip(ranges, ends, strict=True)
    ]


def _draws(rows: int, labels: Path | None, key: np.uint64) -> Iterator[Draws]:
    """Blocks of every row's draw, and whether it takes part."""
    reader = None if labels is None else NpyReader(labels)
    for start in range(0, rows, _BLOCK):
        stop = min(start + _BLOCK, rows)
        draws = np.empty(stop - start, np.uint64)
        _fill_draws(key, start, draws)
        yield draws, np.ones(stop - start, np.bool_) if reader is None else _labelled(reader.read(start, stop))


def _labelled(labels: NDArray[Any]) -> NDArray[np.bool_]:
    if labels.dtype.kind == "f":
        return np.asarray(~np.isnan(labels.reshape(len(labels), -1)).any(axis=1))
    return np.asarray(labels >= 0) if labels.ndim == 1 else np.ones(len(labels), np.bool_)


@compiled
def _fill_draws(key: np.uint64, first: int, out: NDArray[np.uint64]) -> None:
    for i in range(len(out)):
        out[i] = draw(key, first + i, 0)
