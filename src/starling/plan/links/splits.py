"""Training, validation and test edges: given by a table, drawn at random, or cut by time; and that none leaks into another.

Random and given splits are decided edge by edge, wherever an edge is; cuts by time need how many edges are older, which workers add
up. Random splits are drawn for *pairs* (deal.py), so that repeats and reverses of an edge stay together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.errors import InputError
from starling.core.keyed import draw, draw_unit, stream_key

TRAIN, VAL, TEST, LEFT_OUT = 0, 1, 2, 3
CODES = {"train": TRAIN, "val": VAL, "test": TEST}

Total = Callable[[NDArray[Any]], NDArray[Any]]
"""Sums over all workers; alone, what is given."""
Everybodys = Callable[[NDArray[Any]], list[NDArray[Any]]]
"""The lists of whole numbers of all workers."""


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


def time_split(time: NDArray[Any], shares: EdgeShares, total: Total) -> NDArray[np.uint8]:
    """The oldest edges train, the newest test; edges of one time stay together. `total` sums counts over all workers."""
    order = _ordered_bits(time)
    ranked = np.sort(order)
    count = int(total(np.array([len(order)]))[0])
    ends = [_value_at(ranked, round(count * end), total) for end in shares.ends]
    return np.searchsorted(np.array(ends, np.int64), order, side="left").astype(np.uint8)


def _ordered_bits(time: NDArray[Any]) -> NDArray[np.int64]:
    """Whole numbers in the order of the times."""
    if time.dtype.kind in "iub":
        return time.astype(np.int64)
    if time.dtype.kind != "f" or np.isnan(time).any():
        raise InputError(f"Expected a number for the time of every edge, got {time.dtype} or 'not a number' among them.")
    bits = (time.astype(np.float64) + 0.0).view(np.int64)  # of −0 and 0 one
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _value_at(ranked: NDArray[np.int64], rank: int, total: Total) -> int:
    """The smallest value that at least `rank` of all workers' values reach: found by halving, a sum a round."""
    low, high = -(2**63), 2**63 - 1
    while low < high:
        middle = (low + high) // 2
        if int(total(np.array([np.searchsorted(ranked, middle, side="right")]))[0]) >= rank:
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True, eq=False)
class EdgeNames:
    """What makes two edges the same for a leak: the pair, either way round; with `relation`, source, relation and destination."""

    source: NDArray[Any]
    destination: NDArray[Any]
    relation: NDArray[Any] | None = None

    @property
    def bits(self) -> NDArray[np.int64]:
        """64 bits for each edge, the same for the same edge, else different but by a chance of 2⁻⁶⁴."""
        out = np.empty(len(self.source), np.uint64)
        key = stream_key(0, "links/names")
        if self.relation is None:
            _name_pairs(self.source, self.destination, key, out)
        else:
            _name_triples(self.source, self.destination, self.relation, key, out)
        return out.view(np.int64)


def earlier_elsewhere(names: EdgeNames, split: NDArray[np.uint8], everybodys: Everybodys) -> NDArray[np.bool_]:
    """Held-out edges [E] that are in an earlier split too, here or with any worker: those that training would give away.

    Everybody hears of all held-out edges, 8 bytes each, and of none else.
    """
    bits = names.bits
    held = split > TRAIN
    known = np.unique(np.concatenate(everybodys(bits[held])))
    earliest = np.full(len(known), TEST, np.int64)
    place = np.searchsorted(known, bits)
    place[place == len(known)] = 0
    found = np.flatnonzero(known[place] == bits) if len(known) else np.empty(0, np.int64)
    np.minimum.at(earliest, place[found], split[found].astype(np.int64))
    earliest = np.min(everybodys(earliest), axis=0)
    late = np.zeros(len(split), np.bool_)
    late[found] = earliest[place[found]] < split[found]
    late[split == LEFT_OUT] = False
    return late


@compiled
def _draw_splits(
    source: NDArray[Any], destination: NDArray[Any], key: np.uint64, val: float, test: float, split: NDArray[np.uint8]
) -> None:
    for i in range(len(source)):
        low, high = min(source[i], destination[i]), max(source[i], destination[i])
        at = draw_unit(key, low, high)
        split[i] = 0 if at < val else 1 if at < test else 2


@compiled
def _name_pairs(source: NDArray[Any], destination: NDArray[Any], key: np.uint64, out: NDArray[np.uint64]) -> None:
    for i in range(len(source)):
        out[i] = draw(key, min(source[i], destination[i]), max(source[i], destination[i]))


@compiled
def _name_triples(
    source: NDArray[Any], destination: NDArray[Any], relation: NDArray[Any], key: np.uint64, out: NDArray[np.uint64]
) -> None:
    for i in range(len(source)):
        out[i] = draw(draw(key, source[i], destination[i]), relation[i], 1)
