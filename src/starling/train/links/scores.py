"""Scores of held-out edges in one process, from the rows that exact inference gives with training edges as messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.nn.decoders import Decoder
from starling.plan.links.splits import CODES
from starling.train.links.held_out import HeldOut, HeldPairs
from starling.train.links.metrics import LinkScore, pair_metric, ranks_of, rounded
from starling.train.links.ranking import (
    Known,
    Queries,
    TrueEnds,
    count_better,
    queries_of,
    query_blocks,
    true_destinations,
    true_sources,
)
from starling.train.results import Scores


class RowsOfAll(Protocol):
    """The rows of all nodes: those of some positions, or in the order in which they are kept."""

    @property
    def count(self) -> int:
        """How many nodes there are."""

    def rows(self, index: NDArray[Any], /) -> NDArray[np.float32]:
        """Of nodes by position."""

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Of nodes start … stop − 1 in the order in which they are kept."""


@dataclass(eq=False)
class OwnScores:
    """Scores splits from the rows of all nodes."""

    held_out: HeldOut
    _pairs: dict[str, HeldPairs] = field(default_factory=dict, init=False, repr=False)

    @torch.no_grad()
    def of(self, rows: RowsOfAll, decoder: Decoder) -> Scores:
        """The metric on each split."""
        training = decoder.training
        decoder.eval()
        score = self._ranked if self.held_out.how.against_all else self._told
        found = [score(name, rows, decoder) for name in CODES]
        decoder.train(training)
        return Scores(*found)

    def _told(self, name: str, rows: RowsOfAll, decoder: Decoder) -> float | None:
        """From the pairs against each edge."""
        if name not in self._pairs:
            self._pairs[name] = self.held_out.pairs(name)
        pairs = self._pairs[name]
        return metric_of(self.held_out.how.score, pairs.edges, pair_scores(pairs, rows, decoder)) if pairs.edges else None

    def _ranked(self, name: str, rows: RowsOfAll, decoder: Decoder) -> float | None:
        """Against all nodes."""
        held_out = self.held_out
        queries = queries_of(held_out.edges(name), held_out.held.directed)
        if not len(queries):
            return None
        return rounded(float(held_out.how.score.points(ranks_among_all(queries, self._known, rows, decoder)).mean()))

    def _known(self, asked: Queries) -> Known:
        """Positions are rows here; sources of destinations, and destinations of sources."""
        one = self._sources.of(np.where(asked.at_source, asked.kept, -1), asked.relation)
        if asked.at_source.all():
            return one
        return one.joined(self._destinations.of(np.where(asked.at_source, -1, asked.kept), asked.relation))

    @cached_property
    def _sources(self) -> TrueEnds:
        held = self.held_out.held
        return true_sources(held.lists, held.position, held.relation)

    @cached_property
    def _destinations(self) -> TrueEnds:
        held = self.held_out.held
        return true_destinations(held.lists, held.nodes, held.position, held.relation)


def pair_scores(pairs: HeldPairs, rows: RowsOfAll, decoder: Decoder) -> Tensor:
    """The scores of pairs, block by block."""
    device = _device(decoder)
    scores = [
        decoder(
            _rows(rows, pairs.source[part], device),
            _rows(rows, pairs.destination[part], device),
            _index(pairs.relation, part, device),
        )
        for part in pairs.parts()
    ]
    return torch.cat([torch.empty(0, device=device), *scores]).cpu()


def ranks_among_all(
    queries: Queries, known_of: Callable[[Queries], Known], rows: RowsOfAll, decoder: Decoder
) -> NDArray[np.float64]:
    """The place of each query's truth among all nodes, block by block; what is known has numbers in the order of `rows.read`."""
    ranks, device = [np.empty(0)], _device(decoder)
    for part in query_blocks(len(queries)):
        block = queries[part]
        kept, truth = (_rows(rows, ends, device) for ends in (block.kept, block.truth))
        relation = _index(block.relation, slice(None), device)
        counts = count_better(
            decoder,
            kept,
            decoder(kept, truth, relation),
            relation,
            known_of(block),
            lambda start, stop: torch.from_numpy(rows.read(start, stop)).to(device),
            rows.count,
        )
        ranks.append(counts.rank)
    return np.concatenate(ranks)


def metric_of(score: LinkScore, edges: int, scores: Tensor) -> float:
    """The metric of P edges' scores, followed by K of pairs against each."""
    edge, other = scores[:edges].double().numpy(), scores[edges:].double().numpy()
    if not score.of_ranks:
        return rounded(pair_metric(score.name, edge, other))
    return rounded(float(score.points(ranks_of(edge, other)).mean()))


def _device(decoder: Decoder) -> torch.device:
    return next((weight.device for weight in decoder.parameters()), torch.device("cpu"))


def _rows(rows: RowsOfAll, index: NDArray[np.int64], device: torch.device) -> Tensor:
    return torch.from_numpy(rows.rows(index)).to(device)


def _index(values: NDArray[np.int64] | None, part: slice, device: torch.device) -> Tensor | None:
    return None if values is None else torch.from_numpy(values[part]).to(device)
