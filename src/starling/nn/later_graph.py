"""A local graph whose rows are there and whose edges are listed when something first asks for them.

An engine that knows a layer's edges otherwise need not list them: sums may have lists of their own, and kernels read edges in the
lists of a larger graph, where `in_place` says how.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.kernels.adjacency import Lists
from starling.nn.graph import LocalGraph


class EdgesInPlace(Protocol):
    """Edges of some rows, read where a larger graph's lie."""

    @property
    def lists(self) -> Lists:
        """Of all destinations."""

    @property
    def entries(self) -> NDArray[np.int64]:
        """Of each edge its place in the larger graph's lists, by which edge tables are read."""

    def excerpt(self, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> EdgesInPlace:
        """Some destinations, hearing from `sources` alone, both numbered anew."""


class LaterGraph(LocalGraph):
    """`edge_tables` are those of the larger graph, `row_tables` its own; `listed` makes the same graph with its edges."""

    in_place: EdgesInPlace | None
    """Edges that need not be listed for kernels."""
    edge_tables: Mapping[str, Tensor]

    def __init__(
        self,
        sources: int,
        outputs: int,
        edges: int,
        edge_tables: Mapping[str, Tensor],
        row_tables: Mapping[str, Tensor | None],
        listed: Callable[[], LocalGraph],
        in_place: EdgesInPlace | None = None,
    ) -> None:
        known = {"sources": sources, "outputs": outputs, "in_place": in_place, "edge_tables": edge_tables}
        for name, value in {**known, **row_tables, "_edges": edges, "_list": listed}.items():
            object.__setattr__(self, name, value)

    @cached_property
    def listed(self) -> LocalGraph:
        """The same graph with its edges."""
        made: LocalGraph = self.__dict__["_list"]()
        return made

    @property
    def destinations(self) -> int:
        """Those that have lists; where whole lists are thinned these are the outputs."""
        return self.outputs if self.in_place is None else self.in_place.lists.rows

    @property
    def edges(self) -> int:
        """How many edges the listed graph has."""
        count: int = self.__dict__["_edges"]
        return count

    @property
    def device(self) -> torch.device:
        """That of the rows' tables, none of which is listed later."""
        return self.row_position.device

    @cached_property
    def adjacency(self) -> Lists:
        """In place, or listed."""
        return self.listed.adjacency if self.in_place is None else self.in_place.lists

    @property
    def offsets(self) -> Tensor:
        """Known in place, or listed."""
        return self.listed.offsets if self.in_place is None else torch.from_numpy(self.in_place.lists.offsets).to(self.device)

    @property
    def neighbours(self) -> Tensor:
        """Listed."""
        return self.listed.neighbours

    def neighbours_at(self, edges: Tensor | slice) -> Tensor:
        """In place, or listed."""
        if self.in_place is None:
            return self.listed.neighbours[edges]
        numbers = edges if isinstance(edges, slice) else edges.cpu().numpy()
        return torch.from_numpy(self.in_place.lists.neighbours_at(numbers)).to(self.device)

    @property
    def edge_scale(self) -> Tensor | None:
        """None in place, where no edge is missing; or listed."""
        return self.listed.edge_scale if self.in_place is None else None

    @property
    def edge_weight(self) -> Tensor | None:
        """Taken from the whole graph's, or listed, if there are weights."""
        return self._table("weight")

    @property
    def edge_type(self) -> Tensor | None:
        """Taken from the whole graph's, or listed, if there are types."""
        return self._table("type")

    @property
    def edge_attr(self) -> Tensor | None:
        """Taken from the whole graph's, or listed, if there are attributes."""
        return self._table("attr")

    @property
    def own_weight(self) -> Tensor:
        """A loop lies within its part, so none is left out: nothing has to be listed."""
        return self.spread_own_weight

    @property
    def loop_is_here(self) -> Tensor:
        """For the same reason."""
        return self.has_loop

    def to(self, device: torch.device | str) -> LocalGraph:  # type: ignore[override]
        """The listed graph on another device."""
        return self.listed.to(device)

    def _table(self, name: str) -> Tensor | None:
        tables = self.edge_tables
        kept: dict[str, Tensor | None] = self.__dict__.setdefault("_taken", {})
        if name in tables and name not in kept:
            kept[name] = getattr(self.listed, f"edge_{name}") if self.in_place is None else tables[name][self._entries]
        return kept.get(name)

    @cached_property
    def _entries(self) -> Tensor:
        assert self.in_place is not None
        return torch.from_numpy(self.in_place.entries).to(self.device)
