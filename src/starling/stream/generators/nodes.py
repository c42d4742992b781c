"""The nodes of a generated graph: a class each, features that hint at it, and a split. Made row by row, nothing held."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw, draw_below, stream_key
from starling.kernels.parallel import parallel_for
from starling.stream.generators.bijection import shuffled
from starling.stream.generators.gaussian import normal
from starling.stream.raw import RawRows, TableReader

_BLOCK_VALUES = 1 << 22  # 16 MiB of features
_BLOCK_ROWS = 1 << 18
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Classes:
    """Which class each node has: drawn at random, all equally likely, or (`sorted_`) the same draws in ascending order.

    `first` is int64 [classes + 1]: how many nodes are of an earlier class.
    """

    key: np.uint64
    nodes: int
    first: NDArray[np.int64]
    sorted_: bool

    @staticmethod
    def draw(seed: int, nodes: int, classes: int, *, sorted_: bool) -> Classes:
        """Count the members of each class."""
        key = stream_key(seed, "generate/class")
        count = np.zeros(classes, np.int64)
        _count_classes(key, nodes, count)
        return Classes(key, nodes, np.concatenate([[0], np.cumsum(count)]), sorted_)

    def of(self, start: int, stop: int) -> NDArray[np.int64]:
        """The classes of nodes start … stop − 1."""
        if self.sorted_:
            return np.searchsorted(self.first, np.arange(start, stop), side="right") - 1
        y = np.empty(stop - start, np.int64)
        _fill_classes(self.key, start, len(self.first) - 1, y)
        return y

    def in_class_order(self) -> NDArray[np.int32]:
        """All nodes, those of class 0 first; ascending inside a class."""
        if self.sorted_:
            return np.arange(self.nodes, dtype=np.int32)
        order = np.empty(self.nodes, np.int32)
        _arrange_by_class(self.key, self.first[:-1].copy(), order)
        return order


class GeneratedNodes(TableReader):
    """A node table with `y`, `train`, `val`, `test` and, unless there are no features, `x`.

    ``x[v, f] = signal · centre[y[v], f] + noise[v, f]``, centres and noise standard normal, float32. Exactly the asked
    percentages of the nodes (rounded down) are in train, val and test.
    """

    name = "generated nodes"
    id_kind = None

    def __init__(self, classes: Classes, features: int, signal: float, split: tuple[int, int, int], seed: int) -> None:
        self._classes, self._features = classes, features
        self.expected = classes.nodes
        self.roles = ("x", "y", "train", "val", "test") if features else ("y", "train", "val", "test")
        self._noise_key = stream_key(seed, "generate/feature")
        self._split_key = stream_key(seed, "generate/split")
        ends = np.cumsum(split) * classes.nodes // 100
        self._split_ends = np.concatenate([[0], ends])
        centres = np.zeros((len(classes.first) - 1, features), np.float32)
        _add_noise(stream_key(seed, "generate/centre"), 0, centres, 0, len(centres))
        self._centres = centres * np.float32(signal)

    def blocks(self) -> Iterator[RawRows]:
        """The rows, some 16 MiB at a time."""
        nodes = self._classes.nodes
        size = min(_BLOCK_ROWS, max(1, _BLOCK_VALUES // max(1, self._features)))
        for start in range(0, nodes, size):
            yield RawRows(None, self._rows(start, min(start + size, nodes)))

    def _rows(self, start: int, stop: int) -> dict[str, NDArray[np.generic]]:
        y = self._classes.of(start, stop)
        rank = np.empty(stop - start, np.int64)
        _fill_ranks(self._split_key, start, self._classes.nodes, rank)
        columns: dict[str, NDArray[np.generic]] = {"y": y}
        for k, name in enumerate(("train", "val", "test")):
            columns[name] = (rank >= self._split_ends[k]) & (rank < self._split_ends[k + 1])
        if self._features:
            x = self._centres[y]
            parallel_for(len(x), lambda low, high: _add_noise(self._noise_key, start, x, low, high))
            columns["x"] = x
        return columns


@compiled
def _add_noise(key: np.uint64, first: int, x: NDArray[np.float32], start: int, stop: int) -> None:
    """Add a standard normal number to each value of rows start … stop − 1; row i is node first + i."""
    for i in range(start, stop):
        for f in range(0, x.shape[1], 2):
            bits = draw(key, first + i, f)
            x[i, f] += np.float32(normal(bits & _LOW))
            if f + 1 < x.shape[1]:
                x[i, f + 1] += np.float32(normal(bits >> _HALF))


@compiled
def _fill_ranks(key: np.uint64, first: int, nodes: int, rank: NDArray[np.int64]) -> None:
    for i in range(len(rank)):
        rank[i] = shuffled(key, first + i, nodes)


@compiled
def _count_classes(key: np.uint64, nodes: int, count: NDArray[np.int64]) -> None:
    for node in range(nodes):
        count[draw_below(key, node, 0, len(count))] += 1


@compiled
def _fill_classes(key: np.uint64, first: int, classes: int, y: NDArray[np.int64]) -> None:
    for i in range(len(y)):
        y[i] = draw_below(key, first + i, 0, classes)


@compiled
def _arrange_by_class(key: np.uint64, at: NDArray[np.int64], order: NDArray[np.int32]) -> None:
    for node in range(len(order)):
        own = draw_below(key, node, 0, len(at))
        order[at[own]] = node
        at[own] += 1
