"""The edges that evaluations score, and what each is told from: drawn once, by the seed alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.errors import InputError
from starling.core.keyed import draw_unit, stream_key
from starling.plan.links.negatives import KnownPairs, NegativeSampler
from starling.plan.links.pairs import TargetEdges, ends_of, relations_of
from starling.plan.links.random_pairs import AreEdges, random_pairs
from starling.plan.links.splits import CODES, Total
from starling.train.links.data import HeldEdges
from starling.train.links.metrics import LinkScore
from starling.train.links.settings import LinkSettings

_TRAINING_EDGES = 4096
"""About so many training edges are scored: all would cost more than training on them."""
_PAIRS = 1 << 16


@dataclass(frozen=True, eq=False)
class HeldPairs:
    """Pairs to score at every evaluation: P edges and K pairs against each, positions of their ends and relations."""

    edges: int
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    relation: NDArray[np.int64] | None

    def parts(self) -> list[slice]:
        """Blocks of pairs."""
        return [slice(start, start + _PAIRS) for start in range(0, len(self.source), _PAIRS)]

    def cut(self, counts: list[int]) -> Iterator[HeldPairs]:
        """The pairs of the first so many edges, of the next so many, and so on."""
        slots, first = len(self.source) // max(self.edges, 1) - 1, 0
        for count in counts:
            own = np.arange(first, first + count)
            chosen = np.concatenate([own, (self.edges + own[:, None] * slots + np.arange(slots)).reshape(-1)]).astype(np.int64)
            relation = None if self.relation is None else self.relation[chosen]
            yield HeldPairs(count, self.source[chosen], self.destination[chosen], relation)
            first += count


@dataclass(frozen=True)
class Examination:
    """How held-out edges are scored: the metric, what they are told from, and the seed of what is drawn."""

    settings: LinkSettings
    score: LinkScore
    seed: int

    def __post_init__(self) -> None:
        if not self.score.of_ranks and self.settings.candidates == "all":
            raise InputError(
                f"{self.score.name} tells edges from pairs, so many for each, got candidates = 'all'. Give a number, or another "
                "metric."
            )

    @property
    def against_all(self) -> bool:
        """Whether edges are ranked against all nodes."""
        return self.score.of_ranks and self.settings.candidates in (None, "all")

    @property
    def slots(self) -> int:
        """How many pairs stand against each edge, where not all nodes do."""
        return self.settings.candidates if isinstance(self.settings.candidates, int) else 1

    @property
    def bytes_an_edge(self) -> int:
        """What is held of each edge that is scored, and of the pairs against it, while they are drawn."""
        return 48 if self.against_all else 48 + 64 * (1 + self.slots)

    def key(self, name: str) -> np.uint64:
        """The key of what a split's edges are told from."""
        return stream_key(self.seed, f"links/against/{name}")

    def any_pairs(self, name: str, edges: TargetEdges, nodes: int, are_edges: AreEdges, total: Total) -> HeldPairs:
        """Edges of a split with pairs of any two nodes against each, none of which is an edge."""
        others = random_pairs(edges.number, self.slots, nodes, self.key(name), are_edges, total)
        source, destination = (
            np.concatenate([own, drawn.reshape(-1)]).astype(np.int64)
            for own, drawn in zip((edges.source, edges.destination), others, strict=True)
        )
        return HeldPairs(len(edges), source, destination, relations_of(edges, self.slots))

    def other_sources(self, name: str, edges: TargetEdges, nodes: int, known: KnownPairs) -> HeldPairs:
        """Edges of a split with other nodes in place of their sources, none of which makes an edge of `known`."""
        sampler = NegativeSampler("uniform", self.slots, nodes, False, known)
        return HeldPairs(len(edges), *ends_of(edges, sampler.draw(edges, self.key(name))), relations_of(edges, self.slots))

    def scored(self, name: str, held: HeldEdges, split: NDArray[np.uint8], training: int) -> TargetEdges:
        """The edges of a split among those that are held; of the `training` edges of the graph a sample."""
        edges = held.edges(np.flatnonzero(split == CODES[name]))
        if name != "train":
            return edges
        chosen = np.empty(len(edges), np.bool_)
        share = _TRAINING_EDGES / max(training, 1)
        _choose(edges.source, edges.destination, stream_key(self.seed, "links/scored"), share, chosen)
        return edges[np.flatnonzero(chosen)]


@dataclass(eq=False)
class HeldOut:
    """The edges of each split that this process scores, and what they are told from."""

    held: HeldEdges
    split: NDArray[np.uint8]
    how: Examination
    training: int
    """Training edges of the graph."""
    known: KnownPairs
    """All edges that are held here, of any split."""
    are_edges: AreEdges
    total: Total
    _edges: dict[str, TargetEdges] = field(default_factory=dict, init=False, repr=False)

    def edges(self, name: str) -> TargetEdges:
        """The edges of a split; of training edges a sample."""
        if name not in self._edges:
            self._edges[name] = self.how.scored(name, self.held, self.split, self.training)
        return self._edges[name]

    def pairs(self, name: str) -> HeldPairs:
        """The edges of a split and the pairs against them."""
        edges, nodes = self.edges(name), self.held.nodes
        if self.how.score.of_ranks:
            return self.how.other_sources(name, edges, nodes, self.known)
        return self.how.any_pairs(name, edges, nodes, self.are_edges, self.total)


@compiled
def _choose(source: NDArray[Any], destination: NDArray[Any], key: np.uint64, share: float, out: NDArray[np.bool_]) -> None:
    for i in range(len(source)):
        out[i] = draw_unit(key, min(source[i], destination[i]), max(source[i], destination[i])) < share
