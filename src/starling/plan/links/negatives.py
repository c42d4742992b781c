"""Pairs that are no edges, drawn by key: a pure function of (seed, epoch, step, edge, slot), on any worker.

| kind | a node is drawn |
|---|---|
| `uniform` | from all nodes |
| `degree` | from all nodes, in proportion to degree^0.75: out-degree for a source, in-degree for a destination |
| `batch` | from the ends of the step's other targets, the same end |
| `local` | from the nodes of the part that the end that stays belongs to, or of the part that trains alone |
| `pairs` | two nodes from all, one for either end |
| `shared` | from all nodes, once for all targets of the step |

A node that would make a pair of one node, the target itself, or (where the source is replaced) a known edge is drawn again, up to
16 times. The other way round a worker need not hold the list it would have to look into, so pairs with another destination are
taken as drawn: among N nodes a true edge is met with probability out-degree / N. Pairs of two drawn nodes only differ. Shared nodes
are taken as drawn. A pair that is its own target in the end does not count (train/links/batch.py).

`itself` adds the end that stays, linked to itself. No kind but `shared` ever draws it, and that one rarely, yet of all nodes it
is the most alike: where an edge's end is ranked among all nodes, a model that never met it as a negative puts it first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.errors import InputError
from starling.core.keyed import draw_below, draw_unit
from starling.kernels.csr import Csr
from starling.kernels.parallel import parallel_for
from starling.plan.links.local_nodes import LocalNodes
from starling.plan.links.pairs import Contrast, SharedContrast, TargetEdges
from starling.plan.links.random_pairs import random_pairs

NegativeKind = Literal["uniform", "degree", "batch", "local", "pairs", "shared"]

_TRIES = 16
_POWER = 0.75
_CODES = {"uniform": 0, "degree": 1, "batch": 2, "local": 3}
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class KnownPairs:
    """In-neighbours of every row by position, ascending, each as often as it is there: what must not be drawn."""

    offsets: NDArray[np.int64]
    neighbours: NDArray[Any]

    def holds(self, row: NDArray[Any], position: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether the node at each position is an in-neighbour of each row."""
        found = np.empty(len(row), np.bool_)
        _look_up(self.offsets, self.neighbours, row, position, found)
        return found

    def linked_to_all(self, position: NDArray[Any], nodes: int) -> int:
        """How many rows have every other node as an in-neighbour."""
        return int(_count_full(self.offsets, self.neighbours, position, nodes))


def known_pairs(lists: Csr, position: NDArray[Any], threads: int | None = None) -> KnownPairs:
    """The lists sorted by position; 4 or 8 bytes an edge."""
    neighbours = position[lists.neighbours]
    parallel_for(
        lists.rows, lambda start, stop: _sort_lists(lists.offsets, neighbours, start, stop), threads, offsets=lists.offsets
    )
    return KnownPairs(lists.offsets, neighbours)


@dataclass(frozen=True, eq=False)
class DegreeWeights:
    """Summed weights of all positions [N], as a source and as a destination."""

    source: NDArray[np.float64]
    destination: NDArray[np.float64]

    @staticmethod
    def of(outgoing: NDArray[Any], incoming: NDArray[Any]) -> DegreeWeights:
        """From degrees."""
        return DegreeWeights(*(np.cumsum(degree.astype(np.float64) ** _POWER) for degree in (outgoing, incoming)))


@dataclass(frozen=True, eq=False)
class NegativeSampler:
    """Draws `count` pairs against each target edge.

    `both_ends`: of a directed graph sources and destinations are replaced in turn; of an undirected one always the source, since
    every edge is there in both directions. `by_degree` is for the kind degree, `near` for the kind local.
    """

    kind: NegativeKind
    count: int
    nodes: int
    both_ends: bool
    known: KnownPairs
    by_degree: DegreeWeights | None = None
    near: LocalNodes | None = None
    itself: bool = False

    def __post_init__(self) -> None:
        if self.kind == "local" and self.near is None:
            raise InputError(
                "Negatives local to a part need a parts directory, got a graph. Partition it first, or pass --negatives uniform."
            )

    def draw(self, edges: TargetEdges, key: np.uint64, pool: TargetEdges | None = None, turn: int = 0) -> Contrast:
        """The contrast of some edges; `pool` are all targets of the step in the order of their numbers (kind batch)."""
        drawn = self._shared(edges, key, turn) if self.kind == "shared" else self._each(edges, key, pool, turn)
        return self._with_itself(edges, drawn, turn) if self.itself else drawn

    def _each(self, edges: TargetEdges, key: np.uint64, pool: TargetEdges | None, turn: int) -> Contrast:
        """Nodes of its own for each edge."""
        if self.kind == "pairs":
            return self._any_pairs(edges, key)
        slots = np.arange(self.count)
        at_source = np.ones((len(edges), self.count), np.bool_)
        if self.both_ends:
            at_source = (edges.number.astype(np.int64)[:, None] + slots + turn) % 2 == 0
        first, size, places = self._ranges(edges, at_source)
        pools = (_NONE, _NONE) if pool is None else (pool.source.astype(np.int64), pool.destination.astype(np.int64))
        weights = DegreeWeights(np.empty(0), np.empty(0)) if self.by_degree is None else self.by_degree
        node = np.empty((len(edges), self.count), np.int64)
        _draw(
            _CODES[self.kind],
            edges.number.astype(np.int64),
            edges.source.astype(np.int64),
            edges.destination.astype(np.int64),
            edges.row.astype(np.int64),
            at_source,
            key,
            self.nodes,
            self.known.offsets,
            self.known.neighbours,
            weights.source,
            weights.destination,
            *pools,
            first,
            size,
            places,
            node,
        )
        return Contrast(node, at_source)

    def _any_pairs(self, edges: TargetEdges, key: np.uint64) -> Contrast:
        """Pairs of two different nodes; that one is an edge has the chance edges / N²."""
        drawn = random_pairs(edges.number, self.count, self.nodes, key, lambda one, other: one == other, lambda count: count)
        return Contrast(drawn[0], np.ones(drawn[0].shape, np.bool_), drawn[1])

    def _shared(self, edges: TargetEdges, key: np.uint64, turn: int) -> Contrast:
        """The same nodes for all edges, on every worker."""
        node = np.empty(self.count, np.int64)
        _draw_shared(key, self.nodes, node)
        none = np.empty((len(edges), 0), np.int64)
        return Contrast(none, none.astype(np.bool_), shared=SharedContrast(node, self._sides(edges, turn)))

    def _with_itself(self, edges: TargetEdges, drawn: Contrast, turn: int) -> Contrast:
        """One more pair against each edge, of the end that stays and itself."""
        at_source = self._sides(edges, turn)[:, None]
        kept = np.where(at_source, edges.destination[:, None], edges.source[:, None]).astype(np.int64)
        other = None if drawn.other is None else np.concatenate([drawn.other, kept], 1)
        return Contrast(
            np.concatenate([drawn.node, kept], 1), np.concatenate([drawn.at_source, at_source], 1), other, drawn.shared
        )

    def _sides(self, edges: TargetEdges, turn: int) -> NDArray[np.bool_]:
        """Whether the source of each edge [P] is replaced, where one end is for all that stand against it."""
        if not self.both_ends:
            return np.ones(len(edges), np.bool_)
        sides: NDArray[np.bool_] = (edges.number.astype(np.int64) + turn) % 2 == 0
        return sides

    def _ranges(
        self, edges: TargetEdges, at_source: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """Where in a list of nodes each draw may fall, and the list."""
        if self.kind != "local" or self.near is None:
            return np.zeros((0, 0), np.int64), np.zeros((0, 0), np.int64), _NONE
        stays = np.where(at_source, edges.destination[:, None], edges.source[:, None])
        return *self.near.ranges(stays), self.near.positions


def check_possible(nodes: int, full: int) -> None:
    """Refuse a graph in which every node is linked to every other; `full` counts the nodes that are, over all workers."""
    if nodes < 2 or full >= nodes:
        raise InputError(
            f"Every pair of the {nodes:,} nodes is an edge already, so no pair is left to tell edges from. Link prediction needs a "
            "graph that is not complete."
        )


@compiled
def _sort_lists(offsets: NDArray[np.int64], neighbours: NDArray[Any], start: int, stop: int) -> None:
    for row in range(start, stop):
        neighbours[offsets[row] : offsets[row + 1]].sort()


@compiled
def _count_full(offsets: NDArray[np.int64], neighbours: NDArray[Any], position: NDArray[Any], nodes: int) -> int:
    full = 0
    for row in range(len(offsets) - 1):
        different = 0
        for k in range(offsets[row], offsets[row + 1]):
            if neighbours[k] != position[row] and (k == offsets[row] or neighbours[k] != neighbours[k - 1]):
                different += 1
        if different == nodes - 1:
            full += 1
    return full


@compiled
def _holds(neighbours: NDArray[Any], low: int, high: int, node: int) -> bool:
    """Whether a sorted list has a node."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if neighbours[middle] < node:
            low = middle + 1
        else:
            high = middle
    return low < end and neighbours[low] == node


@compiled
def _look_up(
    offsets: NDArray[np.int64], neighbours: NDArray[Any], row: NDArray[Any], position: NDArray[Any], found: NDArray[np.bool_]
) -> None:
    for i in range(len(row)):
        found[i] = _holds(neighbours, offsets[row[i]], offsets[row[i] + 1], position[i])


@compiled
def _draw_shared(key: np.uint64, nodes: int, out: NDArray[np.int64]) -> None:
    for slot in range(len(out)):
        out[slot] = draw_below(key, slot, 0, nodes)


@compiled
def _draw(
    kind: int,
    number: NDArray[np.int64],
    source: NDArray[np.int64],
    destination: NDArray[np.int64],
    row: NDArray[np.int64],
    at_source: NDArray[np.bool_],
    key: np.uint64,
    nodes: int,
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    weight_source: NDArray[np.float64],
    weight_destination: NDArray[np.float64],
    pool_source: NDArray[np.int64],
    pool_destination: NDArray[np.int64],
    first: NDArray[np.int64],
    size: NDArray[np.int64],
    places: NDArray[Any],
    out: NDArray[np.int64],
) -> None:
    for i in range(out.shape[0]):
        for slot in range(out.shape[1]):
            node = np.int64(0)
            for attempt in range(_TRIES):
                turn = slot * _TRIES + attempt
                if kind == 0:
                    node = np.int64(draw_below(key, number[i], turn, nodes))
                elif kind == 1:
                    summed = weight_source if at_source[i, slot] else weight_destination
                    at = draw_unit(key, number[i], turn) * summed[-1]
                    node = np.int64(min(np.searchsorted(summed, at, side="right"), nodes - 1))
                elif kind == 2:
                    pool = pool_source if at_source[i, slot] else pool_destination
                    node = pool[draw_below(key, number[i], turn, len(pool))]
                else:
                    node = np.int64(places[first[i, slot] + draw_below(key, number[i], turn, size[i, slot])])
                if node == source[i] or node == destination[i]:
                    continue
                if at_source[i, slot] and _holds(neighbours, offsets[row[i]], offsets[row[i] + 1], int(node)):
                    continue
                break
            out[i, slot] = node
