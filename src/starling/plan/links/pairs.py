"""Target edges and what stands against them, as messages between the stages of a link-prediction step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.plan.batch import BatchPlan

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class TargetEdges:
    """P edges: `number` in the imported graph, positions of both ends, the row of each destination, and the relation if any."""

    number: NDArray[Any]
    source: NDArray[Any]
    destination: NDArray[Any]
    row: NDArray[Any]
    relation: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.number)

    def __getitem__(self, chosen: slice | NDArray[Any]) -> TargetEdges:
        relation = None if self.relation is None else self.relation[chosen]
        return TargetEdges(self.number[chosen], self.source[chosen], self.destination[chosen], self.row[chosen], relation)


def joined(edges: Sequence[TargetEdges], *, typed: bool) -> TargetEdges:
    """Edges one after the other; `typed` says whether they have relations, where there are none."""
    number, source, destination, row = (
        np.concatenate([_NONE, *(getattr(some, name) for some in edges)]) for name in ("number", "source", "destination", "row")
    )
    relation = np.concatenate([_NONE, *(some.relation for some in edges if some.relation is not None)]) if typed else None
    return TargetEdges(number, source, destination, row, relation)


@dataclass(frozen=True, eq=False)
class Contrast:
    """K pairs against each of P edges: `node` [P, K] in place of the source where `at_source` [P, K], else of the destination."""

    node: NDArray[np.int64]
    at_source: NDArray[np.bool_]
    other: NDArray[np.int64] | None = None
    """Nodes in place of the end that would stay, where both are replaced."""
    shared: SharedContrast | None = None
    """More pairs, the same nodes for all edges."""


@dataclass(frozen=True, eq=False)
class SharedContrast:
    """`node` [S], each against every one of P edges: in place of its source where `at_source` [P], else of its destination."""

    node: NDArray[np.int64]
    at_source: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs to score, their ends being numbers of seeds: P edges, then K pairs against each of them.

    `source` and `destination` [P · (1 + K)]: the edges first, then the contrast of the first edge, of the second, and so on.
    """

    edges: int
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    relation: NDArray[np.int64] | None
    shared: SharedPairs | None = None


@dataclass(frozen=True, eq=False)
class SharedPairs:
    """The same S seeds `node` against each of P edges, of which the seed `kept` [P] stays and `replaced` [P] makes room."""

    node: NDArray[np.int64]
    kept: NDArray[np.int64]
    replaced: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StepPairs:
    """The target edges of a step with what stands against them, before anybody knows where the rows of their ends are."""

    edges: TargetEdges
    contrast: Contrast

    @property
    def ends(self) -> NDArray[np.int64]:
        """Positions whose rows are needed, any number of times each: sources of all pairs, destinations, shared nodes."""
        shared = self.contrast.shared
        more = [] if shared is None or not len(self.edges) else [shared.node]
        return np.concatenate([*ends_of(self.edges, self.contrast), *more])

    def placed(self, place: NDArray[np.int64]) -> Pairs:
        """The pairs, given for each of `ends` the number of its row."""
        count, slots = len(self.edges), self.contrast.node.shape[1]
        source, destination, node = np.split(place, [count * (1 + slots), 2 * count * (1 + slots)])
        shared = None
        if self.contrast.shared is not None:
            at_source = self.contrast.shared.at_source
            own = source[:count], destination[:count]
            shared = SharedPairs(node, np.where(at_source, own[1], own[0]), np.where(at_source, own[0], own[1]))
        return Pairs(count, source, destination, relations_of(self.edges, slots), shared)


def ends_of(edges: TargetEdges, contrast: Contrast) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of sources and destinations of all pairs of `Pairs`, in its order; shared nodes are left to `StepPairs`."""
    stays = np.where(contrast.at_source, edges.destination[:, None], edges.source[:, None])
    stays = stays if contrast.other is None else contrast.other
    source = np.where(contrast.at_source, contrast.node, stays).reshape(-1)
    destination = np.where(contrast.at_source, stays, contrast.node).reshape(-1)
    return (
        np.concatenate([edges.source, source]).astype(np.int64),
        np.concatenate([edges.destination, destination]).astype(np.int64),
    )


def relations_of(edges: TargetEdges, slots: int) -> NDArray[np.int64] | None:
    """The relation of all pairs of `Pairs`, in its order."""
    if edges.relation is None:
        return None
    return np.concatenate([edges.relation, np.repeat(edges.relation, slots)])


@dataclass(frozen=True, eq=False)
class LinkPlan:
    """One step: the plan of its seeds, which are the ends of all its pairs, and the pairs."""

    batch: BatchPlan
    pairs: Pairs
