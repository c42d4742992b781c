"""A layer's edges without lists of their own: kernels read them in the lists of the worker's whole graph.

Which these are, and how they are split by owner, is in `mapped_edges.py` (all neighbours) and `taken_edges.py` (some of them).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from starling.core.once import made_once
from starling.engine.hybrid.layers.edges import LayerEdges
from starling.engine.hybrid.layers.split_edges import SplitEdges
from starling.kernels.looked_up import LookedUpLists
from starling.nn.graph import LocalGraph
from starling.nn.later_graph import GraphInPlace, Unlisted
from starling.plan.batch import Block

Looked = TypeVar("Looked", bound=LookedUpLists)


class _WithLists(ABC):
    """What a layer's edges, and those of some of its rows, tell of their lists (`nn.later_graph.EdgesInPlace`)."""

    @property
    @abstractmethod
    def lists(self) -> LookedUpLists:
        """Of all destinations; edges are numbered list by list."""

    @property
    def entries(self) -> NDArray[Any]:
        """Of each edge its place in the graph's lists: edge tables are read by it."""
        return self.lists.taken_from

    @property
    def scale(self) -> NDArray[np.float32] | None:
        """Of each edge, where these make up for others that are left out."""
        return self.lists.scale

    def excerpt(self, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> LookedUpPiece:
        """Some destinations, hearing from `sources` alone, both numbered anew."""
        return LookedUpPiece(self.lists.excerpt(rows, sources))


class LookedUpPiece(_WithLists):
    """The edges of some destinations of a layer."""

    def __init__(self, lists: LookedUpLists) -> None:
        self._lists = lists

    @property
    def lists(self) -> LookedUpLists:
        """As they were chosen."""
        return self._lists


class LookedUpEdges(_WithLists, LayerEdges, Generic[Looked]):
    """`count` edges, of which a copy is made for whoever asks for lists."""

    @property
    @abstractmethod
    def lists(self) -> Looked:
        """Hearing from all active rows."""

    @abstractmethod
    def _split(self, *, numbered: bool) -> SplitEdges[Looked]:
        """The edges by the owner of their source."""

    @abstractmethod
    def _copy(self) -> Block:
        """As neighbour lists."""

    @made_once
    def block(self) -> Block:
        """A copy; made once."""
        return self._copy()

    def graph(self, known: Unlisted, listed: Callable[[Block], LocalGraph]) -> LocalGraph:
        """Whose edges kernels read in place."""
        return GraphInPlace(known, self.count, lambda: listed(self.block), self)

    def by_row(self) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
        """Without a copy of the neighbours."""
        return self.lists.offsets, self.entries

    def split(self, *, numbered: bool) -> SplitEdges[Looked]:
        """The edges by the owner of their source."""
        return self._numbered if numbered else self._unnumbered

    @made_once
    def _unnumbered(self) -> SplitEdges[Looked]:
        return self._split(numbered=False)

    @made_once
    def _numbered(self) -> SplitEdges[Looked]:
        return self._split(numbered=True)
