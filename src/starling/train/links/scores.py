"""Scores of held-out edges in one process, from the rows that exact inference gives with training edges as messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.core.compile import compiled
from starling.core.errors import InputError
from starling.core.keyed import draw_unit, stream_key
from starling.infer.row_table import RowTable
from starling.nn.decoders import Decoder
from starling.plan.links.negatives import KnownPairs, NegativeSampler
from starling.plan.links.pairs import TargetEdges, ends_of, relations_of
from starling.plan.links.random_pairs import AreEdges, random_pairs
from starling.plan.links.splits import CODES
from starling.train.links.data import HeldEdges, split_sizes
from starling.train.links.metrics import ROUNDING, LinkScore, pair_metric, rounded
from starling.train.links.ranking import (
    Known,
    TrueEnds,
    count_better,
    queries_of,
    query_blocks,
    true_destinations,
    true_sources,
)
from starling.train.links.settings import LinkSettings
from starling.train.results import Scores

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


@dataclass(eq=False)
class HeldOut:
    """The edges of each split that this process scores, and what they are told from; drawn once, by the seed alone."""

    held: HeldEdges
    split: NDArray[np.uint8]
    settings: LinkSettings
    score: LinkScore
    seed: int
    known: KnownPairs
    """All edges that are held here, of any split."""
    are_edges: AreEdges
    _edges: dict[str, TargetEdges] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.score.of_ranks and self.settings.candidates == "all":
            raise InputError(
                f"{self.score.name} tells edges from pairs, so many for each, got candidates = 'all'. Give a number, or another "
                "metric."
            )

    @property
    def against_all(self) -> bool:
        """Whether all nodes are candidates."""
        return ranks_all(self.score, self.settings)

    def edges(self, name: str) -> TargetEdges:
        """The edges of a split; of training edges a sample."""
        if name not in self._edges:
            self._edges[name] = self._find_edges(name)
        return self._edges[name]

    def _find_edges(self, name: str) -> TargetEdges:
        entries = np.flatnonzero(self.split == CODES[name])
        edges = self.held.edges(entries)
        if name != "train":
            return edges
        share = _TRAINING_EDGES / max(split_sizes(self.held, self.split)["train"], 1)
        chosen = np.empty(len(edges), np.bool_)
        _choose(edges.source, edges.destination, stream_key(self.seed, "links/scored"), share, chosen)
        return edges[np.flatnonzero(chosen)]

    def pairs(self, name: str) -> HeldPairs:
        """The edges of a split and the pairs against them."""
        edges, key = self.edges(name), stream_key(self.seed, f"links/against/{name}")
        slots = self.settings.candidates if isinstance(self.settings.candidates, int) else 1
        if self.score.of_ranks:
            sampler = NegativeSampler("uniform", slots, self.held.nodes, False, self.known)
            source, destination = ends_of(edges, sampler.draw(edges, key))
        else:
            others = random_pairs(edges.number, slots, self.held.nodes, key, self.are_edges, self.held.total)
            source, destination = (
                np.concatenate([own, drawn.reshape(-1)]).astype(np.int64)
                for own, drawn in zip((edges.source, edges.destination), others, strict=True)
            )
        return HeldPairs(len(edges), source, destination, relations_of(edges, slots))


@dataclass(eq=False)
class OwnScores:
    """Scores splits from the rows of all nodes."""

    held_out: HeldOut
    _pairs: dict[str, HeldPairs] = field(default_factory=dict, init=False, repr=False)

    @torch.no_grad()
    def of(self, rows: RowTable, decoder: Decoder) -> Scores:
        """The metric on each split."""
        training = decoder.training
        decoder.eval()
        score = self._ranked if self.held_out.against_all else self._told
        found = [score(name, rows, decoder) for name in CODES]
        decoder.train(training)
        return Scores(*found)

    def _told(self, name: str, rows: RowTable, decoder: Decoder) -> float | None:
        """From the pairs against each edge."""
        if name not in self._pairs:
            self._pairs[name] = self.held_out.pairs(name)
        pairs = self._pairs[name]
        if not pairs.edges:
            return None
        device = _device(decoder)
        scores = [
            decoder(
                _rows(rows, pairs.source[part], device),
                _rows(rows, pairs.destination[part], device),
                _index(pairs.relation, part, device),
            )
            for part in pairs.parts()
        ]
        return metric_of(self.held_out.score, pairs.edges, torch.cat(scores).cpu())

    def _ranked(self, name: str, rows: RowTable, decoder: Decoder) -> float | None:
        """Against all nodes."""
        held = self.held_out.held
        queries = queries_of(self.held_out.edges(name), held.directed)
        if not len(queries):
            return None
        points, device = 0.0, _device(decoder)
        for part in query_blocks(len(queries)):
            block = queries[part]
            kept, truth = (_rows(rows, ends, device) for ends in (block.kept, block.truth))
            relation = _index(block.relation, slice(None), device)
            known = self._known(block.kept, block.relation, block.at_source)
            counts = count_better(
                decoder,
                kept,
                decoder(kept, truth, relation),
                relation,
                known,
                lambda start, stop: torch.from_numpy(rows.read(start, stop)).to(device),
                rows.count,
            )
            points += float(self.held_out.score.points(counts.rank).sum())
        return rounded(points / len(queries))

    def _known(self, kept: NDArray[np.int64], relation: NDArray[np.int64] | None, at_source: NDArray[np.bool_]) -> Known:
        """Positions are rows here; sources of destinations, and destinations of sources."""
        one = self._sources.of(np.where(at_source, kept, -1), relation)
        if at_source.all():
            return one
        other = self._destinations.of(np.where(at_source, -1, kept), relation)
        return Known(np.concatenate([one.query, other.query]), np.concatenate([one.node, other.node]))

    @cached_property
    def _sources(self) -> TrueEnds:
        held = self.held_out.held
        return true_sources(held.lists, held.position, held.relation)

    @cached_property
    def _destinations(self) -> TrueEnds:
        held = self.held_out.held
        return true_destinations(held.lists, held.nodes, held.position, held.relation)


def ranks_all(score: LinkScore, settings: LinkSettings) -> bool:
    """Whether held-out edges are ranked against all nodes."""
    return score.of_ranks and settings.candidates in (None, "all")


def metric_of(score: LinkScore, edges: int, scores: Tensor) -> float:
    """The metric of P edges' scores, followed by K of pairs against each."""
    edge, other = scores[:edges].double().numpy(), scores[edges:].double().numpy()
    if not score.of_ranks:
        return rounded(pair_metric(score.name, edge, other))
    return rounded(float(score.points(ranks_of(edge, other)).mean()))


def ranks_of(edge: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float64]:
    """The rank of each edge among its own pairs [P · K]."""
    other = other.reshape(len(edge), -1)
    margin = ROUNDING * np.maximum(np.abs(edge), 1)
    better = (other > (edge + margin)[:, None]).sum(1)
    equal = (other >= (edge - margin)[:, None]).sum(1) - better
    rank: NDArray[np.float64] = 1 + better + equal / 2
    return rank


def _device(decoder: Decoder) -> torch.device:
    return next((weight.device for weight in decoder.parameters()), torch.device("cpu"))


def _rows(rows: RowTable, index: NDArray[np.int64], device: torch.device) -> Tensor:
    return torch.from_numpy(rows.rows(index)).to(device)


def _index(values: NDArray[np.int64] | None, part: slice, device: torch.device) -> Tensor | None:
    return None if values is None else torch.from_numpy(values[part]).to(device)


@compiled
def _choose(source: NDArray[Any], destination: NDArray[Any], key: np.uint64, share: float, out: NDArray[np.bool_]) -> None:
    for i in range(len(source)):
        out[i] = draw_unit(key, min(source[i], destination[i]), max(source[i], destination[i])) < share
