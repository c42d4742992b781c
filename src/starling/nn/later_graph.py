"""Local graphs whose rows are there and whose edges are listed when something first asks for them.

An engine that knows a layer's edges otherwise need not list them: sums may have lists of their own (`LaterGraph`), or kernels read
edges in the lists of a larger graph (`GraphInPlace`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.kernels.adjacency import Lists
from starling.nn.graph import LocalGraph


@dataclass(frozen=True, eq=False)
class Unlisted:
    """What is known of a local graph before its edges are listed; `edge_tables` are those of the graph that it is a piece of."""

    sources: int
    outputs: int
    edge_tables: Mapping[str, Tensor]
    row_tables: Mapping[str, Tensor | None]


class LaterGraph(LocalGraph):
    """A local graph that is `listed` when something first asks for its edges; until then it has what is `known`."""

    edge_tables: Mapping[str, Tensor]

    def __init__(self, known: Unlisted, edges: int, listed: Callable[[], LocalGraph]) -> None:
        size = {"sources": known.sources, "outputs": known.outputs, "_edges": edges}
        for name, value in {**size, "edge_tables": known.edge_tables, **known.row_tables, "_list": listed}.items():
            object.__setattr__(self, name, value)

    @cached_property
    def listed(self) -> LocalGraph:
        """The same graph with its edges."""
        made: LocalGraph = self.__dict__["_list"]()
        return made

    @property
    def destinations(self) -> int:
        """Those that have lists."""
        return self.outputs

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
        """Listed."""
        return self.listed.adjacency

    @property
    def offsets(self) -> Tensor:
        """Listed."""
        return self.listed.offsets

    @property
    def neighbours(self) -> Tensor:
        """Listed."""
        return self.listed.neighbours

    @property
    def edge_scale(self) -> Tensor | None:
        """Listed."""
        return self.listed.edge_scale

    @property
    def edge_weight(self) -> Tensor | None:
        """Made when it is first asked for, if there are weights."""
        return self._table("weight")

    @property
    def edge_type(self) -> Tensor | None:
        """Made when it is first asked for, if there are types."""
        return self._table("type")

    @property
    def edge_attr(self) -> Tensor | None:
        """Made when it is first asked for, if there are attributes."""
        return self._table("attr")

    @property
    def own_weight(self) -> Tensor:
        """No loop is left out, so nothing has to be listed."""
        return self.spread_own_weight

    @property
    def loop_is_here(self) -> Tensor:
        """For the same reason."""
        return self.has_loop

    @property
    def held(self) -> list[Tensor]:
        """The tensors of its rows."""
        return [value for value in vars(self).values() if isinstance(value, Tensor)]

    def to(self, device: torch.device | str) -> LocalGraph:  # type: ignore[override]
        """The listed graph on another device."""
        return self.listed.to(device)

    def _table(self, name: str) -> Tensor | None:
        kept: dict[str, Tensor] = self.__dict__.setdefault("_tables", {})
        if name in self.edge_tables and name not in kept:
            kept[name] = self._made(name)
        return kept.get(name)

    def _made(self, name: str) -> Tensor:
        """A table of the edges."""
        made: Tensor = getattr(self.listed, f"edge_{name}")
        return made


class EdgesInPlace(Protocol):
    """Edges of some rows, read where a larger graph's lie."""

    @property
    def lists(self) -> Lists:
        """Of all destinations."""

    @property
    def entries(self) -> NDArray[Any]:
        """Of each edge its place in the larger graph's lists, by which edge tables are read."""

    @property
    def scale(self) -> NDArray[np.float32] | None:
        """Of each edge, where these make up for others that are left out."""

    def excerpt(self, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> EdgesInPlace:
        """Some destinations, hearing from `sources` alone, both numbered anew."""


class GraphInPlace(LaterGraph):
    """A local graph whose edges kernels read in place, all of its destinations'."""

    where: EdgesInPlace

    def __init__(self, known: Unlisted, edges: int, listed: Callable[[], LocalGraph], where: EdgesInPlace) -> None:
        super().__init__(known, edges, listed)
        object.__setattr__(self, "where", where)

    @property
    def destinations(self) -> int:
        """Those that have lists, mirrors included."""
        return self.where.lists.rows

    @cached_property
    def adjacency(self) -> Lists:
        """In place."""
        return self.where.lists

    @property
    def offsets(self) -> Tensor:
        """Where lists would begin, one after the other."""
        return torch.from_numpy(self.where.lists.offsets).to(self.device)

    @cached_property
    def edge_scale(self) -> Tensor | None:
        """Made when it is first asked for, if some edges are left out, each by a chance of its own."""
        scale = self.where.scale
        return None if scale is None else torch.from_numpy(scale).to(self.device)

    def neighbours_at(self, edges: Tensor | slice) -> Tensor:
        """Out of the larger graph's lists."""
        numbers = edges if isinstance(edges, slice) else edges.cpu().numpy()
        return torch.from_numpy(self.where.lists.neighbours_at(numbers)).to(self.device)

    def _made(self, name: str) -> Tensor:
        """Taken out of the larger graph's table: 8 bytes an edge meanwhile."""
        return self.edge_tables[name][torch.from_numpy(self.where.entries).to(self.device)]


class TakenGraphInPlace(GraphInPlace):
    """The same where some edges were left out, maybe self-loops: those are looked for among the ones that are here."""

    own_weight = LocalGraph.own_weight
    loop_is_here = LocalGraph.loop_is_here
