"""One part of a graph as a training source: own nodes with whole neighbour lists, the halo as neighbours that bring features only.

To strategies, fillers and models it is a graph like any other, of N + H local rows, own nodes first. Degrees are those of
the whole graph, and random choices are keyed by positions in the imported graph, so a part alone gives what the whole graph gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.engine.source import GraphSource
from starling.nn.graph import NO_LOOPS, LocalGraph
from starling.plan.source import NeighbourSource
from starling.stream.edges import EdgesInMemory


@dataclass(frozen=True, eq=False)
class PartSource(GraphSource):
    """A part in memory. `y` and `splits` are of own nodes; `incoming` has a list for every row, an empty one for far halo."""

    part: int
    owned: int
    ids_of_rows: NDArray[np.int64]
    """Global id of every row [N + H]."""
    position: NDArray[Any]
    in_degree: NDArray[Any]
    whole_weighted_degree: NDArray[np.float32] | None = None
    whole_looped: NDArray[np.bool_] | None = None
    """Which rows have self-loops; None where no node of the whole graph has one."""

    def position_of(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Where rows stood in the imported graph."""
        found: NDArray[np.int64] = self.position[rows].astype(np.int64)
        return found

    def name_of(self, row: int) -> str:
        """The user's id of a node."""
        at = int(self.position[row])
        return str(self.ids.user_ids(at, at + 1)[0])

    def edge_stream(self) -> EdgesInMemory:
        """The edges of this part in the order of its lists, between local rows."""
        row = np.repeat(np.arange(self.nodes, dtype=self.incoming.neighbours.dtype), np.diff(self.incoming.offsets))
        return EdgesInMemory(np.stack([self.incoming.neighbours, row], 1), self.nodes, directed=self.directed)

    def neighbour_source(self) -> NeighbourSource:
        """What samplers read."""
        weight, kinds = self.edge_tables.get("weight"), self.edge_tables.get("type")
        return NeighbourSource(
            self.incoming,
            self.nodes,
            self.position,
            None if weight is None else weight.numpy(),
            self.in_degree,
            None if kinds is None else kinds.numpy(),
            self.relation_names,
            self.relations,
        )

    @cached_property
    def degree(self) -> Tensor:
        """In-edges of every row in the whole graph, int64 [N + H]."""
        return torch.from_numpy(self.in_degree.astype(np.int64))

    @cached_property
    def weighted_degree(self) -> Tensor | None:
        """The sum of in-edges' weights of every row in the whole graph; None without weights."""
        return None if self.whole_weighted_degree is None else torch.from_numpy(self.whole_weighted_degree)

    @cached_property
    def looped(self) -> Tensor:
        """Whether each row has a self-loop in the whole graph."""
        return NO_LOOPS if self.whole_looped is None else torch.from_numpy(self.whole_looped)

    @cached_property
    def whole(self) -> LocalGraph:
        """All rows of the part as a layer sees them, made once."""
        return self._local_graph(degree=self.degree, position=torch.from_numpy(self.position.astype(np.int64)))
