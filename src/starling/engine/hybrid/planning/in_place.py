"""A layer's edges without lists of their own: kernels read them in the lists of the worker's whole graph.

Which these are, and how they are split by owner, is in `edges_in_place.py` (all neighbours) and `taken_in_place.py` (some of them).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
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


class InPlace(LayerEdges, Generic[Looked]):
    """`count` edges, of which a copy is made for whoever asks for lists."""

    @property
    @abstractmethod
    def lists(self) -> Looked:
        """Of all destinations, hearing from all active rows; edges are numbered list by list."""

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

    @property
    def entries(self) -> NDArray[Any]:
        """Of each edge its place in the graph's lists: edge tables are read by it."""
        return self.lists.taken_from

    @property
    def scale(self) -> NDArray[np.float32] | None:
        """Of each edge, where these make up for others that are left out."""
        return self.lists.scale

    def excerpt(self, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> SomeInPlace:
        """Some destinations, hearing from `sources` alone, both numbered anew."""
        return SomeInPlace(self.lists.excerpt(rows, sources))


@dataclass(frozen=True, eq=False)
class SomeInPlace:
    """The edges of some destinations of a layer."""

    lists: LookedUpLists

    @property
    def entries(self) -> NDArray[Any]:
        """Of each edge its place in the graph's lists."""
        return self.lists.taken_from

    @property
    def scale(self) -> NDArray[np.float32] | None:
        """Of each edge, where these make up for others that are left out."""
        return self.lists.scale

    def excerpt(self, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> SomeInPlace:
        """Some of these."""
        return SomeInPlace(self.lists.excerpt(rows, sources))
