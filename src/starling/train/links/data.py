"""The edges of a run as they are held: all of them by one process, the in-edges of its nodes by a worker, or part by part.

All look alike from here. What concerns all edges goes over a worker's pieces, one after another, and is added up over the team.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.kernels.csr import Csr
from starling.plan.links.deal import destinations_of
from starling.plan.links.earlier import Everybodys
from starling.plan.links.negatives import known_pairs
from starling.plan.links.pairs import TargetEdges
from starling.plan.links.splits import Total

EdgeColumn = Callable[[str], NDArray[Any]]
"""An edge table by name, a value for each entry of the lists."""


@dataclass(frozen=True, eq=False)
class HeldEdges:
    """Edges in memory, as in-neighbour lists of rows.

    `position` [rows] is where each row stood in the imported graph; `relation` has the type of each entry, where edges have types.
    """

    lists: Csr
    position: NDArray[Any]
    relation: NDArray[np.int64] | None
    nodes: int
    directed: bool
    column: EdgeColumn

    @property
    def source(self) -> NDArray[Any]:
        """The position of every entry's source."""
        found: NDArray[Any] = self.position[self.lists.neighbours]
        return found

    @property
    def destination(self) -> NDArray[Any]:
        """The position of every entry's destination."""
        return np.repeat(self.position[: self.lists.rows], np.diff(self.lists.offsets))

    def edges(self, entries: NDArray[np.int64]) -> TargetEdges:
        """Some of the edges."""
        row = destinations_of(self.lists, entries)
        relation = None if self.relation is None else self.relation[entries]
        source = self.position[self.lists.neighbours[entries]]
        return TargetEdges(self.lists.edge[entries], source, self.position[row], row, relation)

    def linked_to_all(self) -> int:
        """How many rows have every other node of the graph as an in-neighbour."""
        degree = np.diff(self.lists.offsets)
        if degree.max(initial=0) < self.nodes - 1:
            return 0  # without sorting the lists
        return known_pairs(self.lists, self.position).linked_to_all(self.position, self.nodes)


@dataclass(frozen=True, eq=False)
class AllEdges:
    """Every edge of a graph, each with one worker, looked at in pieces of which one is held at a time.

    `pieces` makes a pass over this worker's; `tables` are the names of the graph's edge tables, `typed` whether edges have types.
    """

    path: Path
    pieces: Callable[[], Iterable[HeldEdges]]
    tables: Collection[str]
    typed: bool
    total: Total
    everybodys: Everybodys


def training_lists(held: HeldEdges, stays: NDArray[np.bool_]) -> Csr:
    """The lists without the entries that do not stay."""
    before = np.concatenate([[0], np.cumsum(stays)])
    lists = held.lists
    return Csr(before[lists.offsets], lists.neighbours[stays], lists.edge[stays])
