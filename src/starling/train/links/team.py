"""The steps and evaluations of link prediction by one worker of a team; the same numbers on every worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from starling.comm.team import Team
from starling.engine.fill import FilledBatch
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.engine.hybrid.planning.links import TeamLinks
from starling.engine.hybrid.share.row_requests import Addresses, RowRequest, request_rows
from starling.engine.hybrid.share.source import WorkerSource
from starling.nn.decoders import Decoder, LinkModel
from starling.plan.links.negatives import KnownPairs
from starling.plan.links.splits import CODES
from starling.train.data_work import DataWork
from starling.train.links.batch import with_pairs
from starling.train.links.held_out import HeldOut
from starling.train.links.ranking import (
    Counts,
    Known,
    Queries,
    TrueEnds,
    count_better,
    queries_of,
    true_destinations,
    true_sources,
)
from starling.train.links.team_metric import mean_over_team, metric_over_team
from starling.train.metrics import Score, everybodys_rows
from starling.train.results import Scores
from starling.train.team_evaluation import TeamEvaluation
from starling.train.work import Work

_PAIRS, _QUERIES, _ROUNDS = 1 << 16, 1 << 9, 400
"""Pairs and queries of each worker at once, and rounds of these at most: beyond, more are taken at once."""


@dataclass(frozen=True)
class TeamLinkWork(Work):
    """One worker's share; `whole` computes the rows of all nodes with training edges as messages."""

    strategy: TeamLinks
    whole: TeamEvaluation
    held_out: TeamScores

    @property
    def steps_per_epoch(self) -> int:
        """How many steps an epoch has."""
        return self.strategy.steps_per_epoch

    def batches(self, epochs: int, after: int = 0) -> Iterator[FilledBatch]:
        """Plans, made together with the others, filled; what they sent for it counts when the step is made."""
        filler, team = self.whole.filler, self.whole.source.team
        for epoch in range(after + 1, epochs + 1):
            for number in range(self.steps_per_epoch):
                with team.ledger.behind(), team.ledger.apart() as sent:
                    plan = self.strategy.plan(epoch, number)
                    filled = replace(filler.fill(plan.seeds), sent=sent)
                step = filled.views[-1].exchange
                assert isinstance(step, TeamExchange)
                ends = TeamExchange(team, plan.traffic, step.calls, len(filled.views), wire=filler.sending.wire)
                yield with_pairs(filled, plan.pairs, plan.total, ends)

    def scores(self, model: nn.Module, score: Score) -> Scores:
        """The metric on held-out edges, each worker scoring those that end in its nodes."""
        assert isinstance(model, LinkModel)
        rows = self.whole.outputs(model.encoder)
        return self.held_out.of(rows, model.decoder, self.whole.scoring_calls())


@dataclass
class DataLinkWork(DataWork):
    """One worker of those that each compute pairs of their own; evaluation is by all together."""

    held_out: TeamScores | None = None

    def scores(self, model: nn.Module, score: Score) -> Scores:
        """The metric on held-out edges, each worker scoring those that end in its nodes."""
        assert isinstance(model, LinkModel)
        assert self.held_out is not None
        assert isinstance(self.whole, TeamEvaluation), "pairs are scored from rows in memory"
        rows = self.whole.outputs(model.encoder)
        return self.held_out.of(rows, model.decoder, self.whole.scoring_calls())


@dataclass(eq=False)
class TeamScores:
    """Scores splits from everybody's rows."""

    held_out: HeldOut
    source: WorkerSource
    addresses: Addresses
    _kept: dict[str, list[_Block]] = field(default_factory=dict, init=False, repr=False)

    @torch.no_grad()
    def of(self, rows: Tensor, decoder: Decoder, calls: Calls) -> Scores:
        """The metric on each split, given the rows of the own nodes."""
        training = decoder.training
        decoder.eval()
        score = self._ranked if self.held_out.how.against_all else self._told
        found = [score(name, rows, decoder, calls) for name in CODES]
        decoder.train(training)
        return Scores(*found)

    def _told(self, name: str, rows: Tensor, decoder: Decoder, calls: Calls) -> float | None:
        """From the pairs against each edge."""
        if name not in self._kept:
            self._kept[name] = self._blocks(name, calls)
        edge, other = [rows.new_empty(0)], [rows.new_empty(0)]
        for block in self._kept[name]:
            all_rows = self._exchange(block.request, calls).pull(rows)
            source, destination = (torch.from_numpy(ends) for ends in np.split(block.request.place, 2))
            relation = None if block.relation is None else torch.from_numpy(block.relation)
            scores = decoder(all_rows[source], all_rows[destination], relation)
            edge.append(scores[: block.edges])
            other.append(scores[block.edges :])
        return metric_over_team(self.held_out.how.score, torch.cat(edge), torch.cat(other), self.source.team, calls)

    def _blocks(self, name: str, calls: Calls) -> list[_Block]:
        """The pairs of a split with the rows they need: asked for once, as pairs stay the same."""
        pairs = self.held_out.pairs(name)
        slots = len(pairs.source) // max(pairs.edges, 1)  # an edge and the pairs against it
        size, rounds = self._rounds(pairs.edges, max(1, _PAIRS // max(slots, 1)), calls)
        blocks = []
        for turn in range(rounds):
            edges = np.arange(turn * size, min((turn + 1) * size, pairs.edges))
            others = pairs.edges + (edges[:, None] * (slots - 1) + np.arange(slots - 1)).reshape(-1)
            chosen = np.concatenate([edges, others]).astype(np.int64)
            ends = np.concatenate([pairs.source[chosen], pairs.destination[chosen]])
            relation = None if pairs.relation is None else pairs.relation[chosen]
            blocks.append(_Block(len(edges), self._request(ends, calls), relation))
        return blocks

    def _ranked(self, name: str, rows: Tensor, decoder: Decoder, calls: Calls) -> float | None:
        """Against all nodes: queries go to everybody, who counts among its own nodes and answers."""
        queries = queries_of(self.held_out.edges(name), self.held_out.held.directed)
        size, rounds = self._rounds(len(queries), _QUERIES, calls)
        points = [np.empty(0)]
        for turn in range(rounds):
            block = queries[slice(turn * size, min((turn + 1) * size, len(queries)))]
            points.append(self.held_out.how.score.points(self._rank(block, rows, decoder, calls)))
        return mean_over_team(np.concatenate(points), self.source.team, calls)

    def _rank(self, block: Queries, rows: Tensor, decoder: Decoder, calls: Calls) -> NDArray[np.float64]:
        team = self.source.team
        request = self._request(np.concatenate([block.kept, block.truth]), calls)
        ends = self._exchange(request, calls).pull(rows)[torch.from_numpy(request.place)]
        kept, truth = ends[: len(block)], ends[len(block) :]
        relation = None if block.relation is None else torch.from_numpy(block.relation)
        told = torch.cat([kept, decoder(kept, truth, relation)[:, None]], 1)
        sources = self._sources.of(np.where(block.at_source, block.row, -1), block.relation)
        words = _Words(block.kept, block.at_source, block.relation, sources)
        heard = [_Words.read(numbers) for numbers in team.all_lists(calls.next_tag(), words.numbers)]
        counts = [len(one.kept) for one in heard]
        everybodys = everybodys_rows(team, calls.next_tag(), told, counts)
        answers = [
            self._count(one, part, rows, decoder) for one, part in zip(heard, torch.split(everybodys, counts), strict=True)
        ]
        better, equal = np.sum([one.reshape(2, -1) for one in team.swap_lists(calls.next_tag(), answers)], axis=0)
        return Counts(better, equal).rank

    def _count(self, asked: _Words, told: Tensor, rows: Tensor, decoder: Decoder) -> NDArray[np.int64]:
        """Own nodes that do better than the truth of somebody's queries, and as well: [2 · Q]."""
        destinations = self._destinations.of(np.where(asked.at_source, -1, self._local_rows(asked.kept)), asked.relation)
        query = np.concatenate([asked.known.query, destinations.query])
        row = self.addresses.own_rows(np.concatenate([asked.known.node, destinations.node]))
        known = Known(query[row >= 0], row[row >= 0])
        relation = None if asked.relation is None else torch.from_numpy(asked.relation)
        counts = count_better(
            decoder, told[:, :-1], told[:, -1], relation, known, lambda start, stop: rows[start:stop], len(rows)
        )
        return np.concatenate([counts.better, counts.equal])

    def _rounds(self, count: int, size: int, calls: Calls) -> tuple[int, int]:
        """How many everybody takes at once, and how often, so that the worker with the most gets through."""
        most = max(int(one[0]) for one in self.source.team.all_lists(calls.next_tag(), np.array([count])))
        size = max(size, -(-most // _ROUNDS))
        return size, -(-most // size)

    def _request(self, positions: NDArray[np.int64], calls: Calls) -> RowRequest:
        return request_rows(self.addresses, self.source.team, calls.next_tag(), positions, all_own=self.source.graph.owned)

    def _exchange(self, request: RowRequest, calls: Calls) -> TeamExchange:
        return TeamExchange(self.source.team, request.traffic, calls)

    def _local_rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of nodes that are known here, own or mirrors; −1 for others."""
        order, ranked = self._by_position
        place = np.minimum(np.searchsorted(ranked, positions), len(ranked) - 1)
        return np.where(ranked[place] == positions, order[place], -1) if len(ranked) else np.full(len(positions), -1)

    @cached_property
    def _by_position(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        position = self.held_out.held.position
        order = np.argsort(position)
        return order, position[order]

    @cached_property
    def _sources(self) -> TrueEnds:
        held = self.held_out.held
        return true_sources(held.lists, held.position, held.relation)

    @cached_property
    def _destinations(self) -> TrueEnds:
        held = self.held_out.held
        return true_destinations(held.lists, len(held.position), held.position, held.relation)


@dataclass(frozen=True, eq=False)
class EdgeLookup:
    """Asks the owners of destinations whether pairs are edges; all workers ask at the same time."""

    addresses: Addresses
    team: Team
    calls: Calls
    known: KnownPairs

    def __call__(self, source: NDArray[np.int64], destination: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether there is an edge from each source to each destination, given as positions."""
        ids = np.asarray(self.addresses.global_of_position[destination], np.int64)
        order = np.argsort(ids, kind="stable")
        rows = self.addresses.by_owner(ids[order])
        ends = np.cumsum([len(one) for one in rows])[:-1]
        asked = [np.concatenate(pair) for pair in zip(rows, np.split(source[order], ends), strict=True)]
        heard = [numbers.reshape(2, -1) for numbers in self.team.swap_lists(self.calls.next_tag(), asked)]
        answers = [self.known.holds(row, one).astype(np.int64) for row, one in heard]
        found = np.empty(len(ids), np.bool_)
        found[order] = np.concatenate(self.team.swap_lists(self.calls.next_tag(), answers)) == 1
        return found


@dataclass(frozen=True, eq=False)
class _Block:
    """Some edges and the pairs against them, with the request for their ends' rows: sources, then destinations."""

    edges: int
    request: RowRequest
    relation: NDArray[np.int64] | None


@dataclass(frozen=True, eq=False)
class _Words:
    """What is said of queries beside their rows: the ends that stay, which end is asked for, relations, known sources."""

    kept: NDArray[np.int64]
    at_source: NDArray[np.bool_]
    relation: NDArray[np.int64] | None
    known: Known

    @property
    def numbers(self) -> NDArray[np.int64]:
        """As one list of whole numbers."""
        relation = np.full(len(self.kept), -1) if self.relation is None else self.relation
        head = np.array([len(self.kept), self.relation is not None])
        return np.concatenate([head, self.kept, self.at_source, relation, self.known.query, self.known.node]).astype(np.int64)

    @classmethod
    def read(cls, numbers: NDArray[np.int64]) -> _Words:
        """What `numbers` gave."""
        count, typed = int(numbers[0]), bool(numbers[1])
        kept, at_source, relation = numbers[2 : 2 + 3 * count].reshape(3, -1)
        query, node = numbers[2 + 3 * count :].reshape(2, -1)
        return cls(kept, at_source.astype(np.bool_), relation if typed else None, Known(query, node))
