"""The edges of a layer that are here: listed for it, thinned, or read where the graph's own lie (`planning/looked_up_edges.py`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.once import lock_of, made_once
from starling.engine.hybrid.layers.split_edges import SplitEdges, split_edges, sums_of_lists
from starling.engine.hybrid.messages.traffic import Traffic
from starling.kernels.adjacency import Adjacency
from starling.nn.graph import LocalGraph
from starling.nn.later_graph import LaterGraph, Unlisted
from starling.plan.batch import Block


class LayerEdges(ABC):
    """`count` edges, asked for in whatever form a layer reads them."""

    scaled = False
    """Whether `split` has scales that make up for edges which are left out."""

    def __init__(self, count: int) -> None:
        self.count = count

    @property
    @abstractmethod
    def block(self) -> Block:
        """As neighbour lists."""

    @abstractmethod
    def split(self, *, numbered: bool) -> SplitEdges[Any]:
        """By the owner of their source, with their numbers where edges have values of their own; made once."""

    def graph(self, known: Unlisted, listed: Callable[[Block], LocalGraph]) -> LocalGraph:
        """As layers see them; `listed` makes a graph of neighbour lists, when something first needs these."""
        return LaterGraph(known, self.count, lambda: listed(self.block))

    def stands_for(self) -> NDArray[np.float32]:
        """How many edges those of each destination stand for together: some may make up for others that are left out."""
        return stands_for(self.block.offsets, self.block.edge_scale)

    def by_row(self) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
        """Where each list begins, and of each edge its place in the graph's lists, by which edge tables are read; None for all."""
        block = self.block
        return block.offsets, block.edge if len(block.edge) == len(block.neighbours) else None


class ListedEdges(LayerEdges):
    """Neighbour lists that are there."""

    def __init__(self, block: Block, traffic: Traffic) -> None:
        super().__init__(len(block.neighbours))
        self._block, self._traffic = block, traffic
        self._split: SplitEdges[Adjacency] | None = None

    @property
    def block(self) -> Block:
        """They themselves."""
        return self._block

    def graph(self, known: Unlisted, listed: Callable[[Block], LocalGraph]) -> LocalGraph:
        """At once."""
        return listed(self._block)

    def split(self, *, numbered: bool) -> SplitEdges[Adjacency]:
        """Copied; those with numbers serve whoever needs none, too."""
        with lock_of(self):
            if self._split is None or (numbered and not self._split.inner.numbered):
                self._split = split_edges(self._block.offsets, self._block.neighbours, self._traffic, numbered=numbered)
            return self._split


class ThinnedEdges(LayerEdges):
    """Edges of which some are left out. What is left is known `split`, with scales; lists are made when something needs them."""

    scaled = True

    def __init__(self, split: SplitEdges[Adjacency], count: int, traffic: Traffic, listed: Callable[[], Block]) -> None:
        super().__init__(count)
        self._split, self._traffic, self._list = split, traffic, listed

    @made_once
    def _listed(self) -> ListedEdges:
        return ListedEdges(self._list(), self._traffic)

    @property
    def block(self) -> Block:
        """Made once."""
        return self._listed.block

    def split(self, *, numbered: bool) -> SplitEdges[Adjacency]:
        """What is known, or with numbers and without scales, out of the lists."""
        return self._listed.split(numbered=True) if numbered else self._split

    def stands_for(self) -> NDArray[np.float32]:
        """From the scales."""
        return self._split.stands_for()


def stands_for(offsets: NDArray[np.int64], scale: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """How many edges those of each list stand for, each for one or for `scale`."""
    return np.diff(offsets).astype(np.float32) if scale is None else sums_of_lists(scale, offsets)
