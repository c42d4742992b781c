"""Training, validation and test edges: given by a table, or drawn at random.

Both are decided edge by edge, wherever an edge is. Random splits are drawn for *pairs* (deal.py), so that repeats and reverses of
an edge stay together. Cuts by time are in by_time.py; that no edge leaks into another split in earlier.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.errors import InputError
from starling.core.keyed import draw_unit, stream_key

TRAIN, VAL, TEST, LEFT_OUT = 0, 1, 2, 3
CODES = {"train": TRAIN, "val": VAL, "test": TEST}

Total = Callable[[NDArray[Any]], NDArray[Any]]
"""Sums over all workers; alone, what is given."""


@dataclass(frozen=True)
class EdgeShares:
    """Percentages of the edges for training, validation and test."""

    train: float
    val: float
    test: float

    @classmethod
    def parse(cls, text: str) -> EdgeShares:
        """From text such as ``90/5/5``."""
        try:
            shares = cls(*map(float, text.split("/")))
        except (TypeError, ValueError):
            shares = cls(0, 0, 0)
        whole = shares.train + shares.val + shares.test
        if min(shares.train, shares.test) <= 0 or shares.val < 0 or not abs(whole - 100) <= 1e-9:
            raise InputError(
                f"Expected --split-edges as percentages of training, validation and test edges that add up to 100, such as 90/5/5, "
                f"got '{text}'."
            )
        return shares

    @property
    def ends(self) -> tuple[float, float]:
        """Where of [0, 1) validation and test begin."""
        return self.train / 100, (self.train + self.val) / 100


def random_split(source: NDArray[Any], destination: NDArray[Any], shares: EdgeShares, seed: int) -> NDArray[np.uint8]:
    """The split of edges by their ends' positions; each pair is drawn once for all its edges, so shares are met on average."""
    split = np.empty(len(source), np.uint8)
    _draw_splits(source, destination, stream_key(seed, "links/split"), *shares.ends, split)
    return split


def given_split(table: NDArray[Any], where: str) -> NDArray[np.uint8]:
    """The split of edges from a table of 0, 1 and 2; `where` names it."""
    values = np.asarray(table)
    if values.ndim != 1 or values.dtype.kind not in "iub":
        raise InputError(f"Expected a whole number an edge in {where}, got {values.dtype} of shape {values.shape}.")
    wrong = np.flatnonzero((values < TRAIN) | (values > TEST))
    if len(wrong):
        raise InputError(f"Expected 0 (train), 1 (validation) or 2 (test) in {where}, got {values[wrong[0]]}.")
    return values.astype(np.uint8)


@compiled
def _draw_splits(
    source: NDArray[Any], destination: NDArray[Any], key: np.uint64, val: float, test: float, split: NDArray[np.uint8]
) -> None:
    for i in range(len(source)):
        low, high = min(source[i], destination[i]), max(source[i], destination[i])
        at = draw_unit(key, low, high)
        split[i] = 0 if at < val else 1 if at < test else 2
