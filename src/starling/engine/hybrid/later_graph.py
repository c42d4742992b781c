"""A local graph whose rows are there and whose edges are listed when something first asks for them.

Sums and means never do where edges are known otherwise, thinned (`thinning.py`) or read from the whole graph's lists
(`whole_lists.py`); attention, maxima and edge weights do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import torch
from torch import Tensor

from starling.engine.hybrid.plan import WorkerLayer
from starling.nn.graph import LocalGraph


class LaterGraph(LocalGraph):
    """`tables` names the edge tables that the listed graph will have, so that asking for another lists nothing."""

    def __init__(
        self, layer: WorkerLayer, tables: set[str], rows: Mapping[str, Tensor | None], listed: Callable[[], LocalGraph]
    ) -> None:
        known = {"sources": layer.traffic.rows, "outputs": layer.outputs, "_edges": layer.edges, "_tables": tables}
        for name, value in {**known, **rows, "_list": listed}.items():
            object.__setattr__(self, name, value)

    @cached_property
    def listed(self) -> LocalGraph:
        """The same graph with all its tables."""
        made: LocalGraph = self.__dict__["_list"]()
        return made

    @property
    def destinations(self) -> int:
        """All of them are outputs: lists are whole where they are thinned."""
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
        """Listed, if there are weights."""
        return self.listed.edge_weight if "weight" in self.__dict__["_tables"] else None

    @property
    def edge_type(self) -> Tensor | None:
        """Listed, if there are types."""
        return self.listed.edge_type if "type" in self.__dict__["_tables"] else None

    @property
    def edge_attr(self) -> Tensor | None:
        """Listed, if there are attributes."""
        return self.listed.edge_attr if "attr" in self.__dict__["_tables"] else None

    @property
    def own_weight(self) -> Tensor:
        """A loop lies within its part, so none is left out: nothing has to be listed."""
        return self.spread_own_weight

    def to(self, device: torch.device | str) -> LocalGraph:  # type: ignore[override]
        """The listed graph on another device."""
        return self.listed.to(device)
