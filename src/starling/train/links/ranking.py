"""The place of each held-out edge among all nodes that might take the place of one of its ends: filtered, in blocks.

Never a matrix of edges × nodes: a block of queries meets a block of candidates, and what stays of it are two counts a query. Other
true ends of the same node and relation, in any split, are no mistakes, so they do not count (Bordes et al. 2013).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.kernels.csr import Csr, transpose
from starling.nn.decoders import Decoder
from starling.plan.links.pairs import TargetEdges
from starling.train.links.metrics import ROUNDING
from starling.train.metrics import check_finite

Rows = Callable[[int, int], Tensor]
"""Rows start … stop − 1 of the candidates."""

_CELLS = 1 << 22
"""Scores, and numbers of candidates, that are held at once."""
_QUERIES = 1 << 9


@dataclass(frozen=True, eq=False)
class Known:
    """Nodes that must not count: `node` [M] for `query` [M]."""

    query: NDArray[np.int64]
    node: NDArray[np.int64]

    def joined(self, other: Known) -> Known:
        """These and those of `other`."""
        return Known(np.concatenate([self.query, other.query]), np.concatenate([self.node, other.node]))


@dataclass(frozen=True, eq=False)
class TrueEnds:
    """For every row the positions of the nodes at the other end of its edges, and the relations of these."""

    offsets: NDArray[np.int64]
    ends: NDArray[Any]
    relation: NDArray[np.int64] | None

    def of(self, rows: NDArray[Any], relation: NDArray[np.int64] | None) -> Known:
        """The true ends of some rows by some relations; rows below 0 have none."""
        rows = np.asarray(rows, np.int64)
        here = (rows >= 0) & (rows < len(self.offsets) - 1)
        at = np.where(here, rows, 0)
        first = self.offsets[at]
        lengths = np.where(here, self.offsets[np.minimum(at + 1, len(self.offsets) - 1)] - first, 0)
        query = np.repeat(np.arange(len(rows)), lengths)
        entry = np.repeat(first - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(len(query))
        if self.relation is not None and relation is not None:
            same = self.relation[entry] == relation[query]
            query, entry = query[same], entry[same]
        return Known(query, np.asarray(self.ends[entry], np.int64))


def true_sources(lists: Csr, position: NDArray[Any], relation: NDArray[np.int64] | None) -> TrueEnds:
    """By destination row: its sources."""
    return TrueEnds(lists.offsets, position[lists.neighbours], relation)


def true_destinations(lists: Csr, rows: int, position: NDArray[Any], relation: NDArray[np.int64] | None) -> TrueEnds:
    """By source row: its destinations."""
    turned = transpose(lists, rows)
    return TrueEnds(turned.offsets, position[turned.neighbours], None if relation is None else relation[turned.edge])


@dataclass(frozen=True, eq=False)
class Counts:
    """How many candidates score better than the truth, and how many as well."""

    better: NDArray[np.int64]
    equal: NDArray[np.int64]

    @property
    def rank(self) -> NDArray[np.float64]:
        """The mean of the places that the truth may take."""
        return 1 + self.better + self.equal / 2


@torch.no_grad()
def count_better(
    decoder: Decoder,
    kept: Tensor,
    truth: Tensor,
    relation: Tensor | None,
    known: Known,
    candidates: Rows,
    count: int,
) -> Counts:
    """Candidates against Q queries: rows [Q, D] of the ends that stay, scores [Q] of the truth; `known.node` are candidates."""
    check_finite(truth)
    better, equal = torch.zeros(2, len(kept), dtype=torch.int64, device=truth.device)
    order = np.argsort(known.node, kind="stable")
    node, query = known.node[order], known.query[order]
    size = max(1, _CELLS // max(1, *kept.shape))  # a block's scores, and its candidates' own numbers
    margin = ROUNDING * truth.abs().clamp(min=1)
    high, low = (truth + margin)[:, None], (truth - margin)[:, None]
    for start in range(0, count, size):
        stop = min(start + size, count)
        score = decoder.against(kept, candidates(start, stop), relation)
        first, last = np.searchsorted(node, [start, stop])
        score[torch.from_numpy(query[first:last]), torch.from_numpy(node[first:last] - start)] = -torch.inf
        above = (score > high).sum(1)
        better += above
        equal += (score >= low).sum(1) - above
    return Counts(better.cpu().numpy(), equal.cpu().numpy())


@dataclass(frozen=True, eq=False)
class Queries:
    """An end that stays, the true other end, and the relation, for both ends of some edges or for one."""

    kept: NDArray[np.int64]
    truth: NDArray[np.int64]
    relation: NDArray[np.int64] | None
    at_source: NDArray[np.bool_]
    """Where the source is asked for; elsewhere the destination."""
    row: NDArray[np.int64]
    """Row of the destination."""

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, chosen: slice) -> Queries:
        relation = None if self.relation is None else self.relation[chosen]
        return Queries(self.kept[chosen], self.truth[chosen], relation, self.at_source[chosen], self.row[chosen])


def queries_of(edges: TargetEdges, both_ends: bool) -> Queries:
    """Who is the source of each edge's destination; with `both_ends` also, who is the destination of its source."""
    turns = 2 if both_ends else 1
    kept = [edges.destination, edges.source][:turns]
    truth = [edges.source, edges.destination][:turns]
    at_source = np.repeat(np.arange(turns) == 0, len(edges))
    relation = None if edges.relation is None else np.tile(edges.relation, turns)
    row = np.tile(np.asarray(edges.row, np.int64), turns)
    return Queries(np.concatenate(kept).astype(np.int64), np.concatenate(truth).astype(np.int64), relation, at_source, row)


def query_blocks(count: int) -> list[slice]:
    """Queries that are asked at once."""
    return [slice(start, min(start + _QUERIES, count)) for start in range(0, count, _QUERIES)]
