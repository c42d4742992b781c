"""Scores of held-out edges part by part: each worker scores those that end in nodes of its parts.

Rows of all nodes lie in a file that all workers see. What is held are the edges that are scored and the pairs against them, and
while a part's edges are ranked among all nodes, its lists, which say which nodes do not count; of a directed graph also the
destinations of all edges that leave a held-out edge's source. What is scored together belongs to one part, so that how many workers
there are changes no bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from starling.engine.data.parts_source import PartsSource
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.row_table import RowTable
from starling.nn.decoders import Decoder
from starling.plan.links.negatives import known_pairs
from starling.plan.links.pairs import TargetEdges, joined
from starling.plan.links.splits import CODES
from starling.train.links.edge_split import EdgeSplit
from starling.train.links.held_out import Examination, HeldPairs
from starling.train.links.parts_edges import EdgesOfParts, held_by_part
from starling.train.links.ranking import Known, Queries, TrueEnds, queries_of, true_sources
from starling.train.links.scores import pair_scores, ranks_among_all
from starling.train.links.team_metric import mean_over_team, metric_over_team
from starling.train.results import Scores


@dataclass(frozen=True, eq=False)
class RowsOfParts:
    """The rows of all nodes in the order of parts, asked for by position."""

    table: RowTable
    global_of_position: NDArray[Any]

    @property
    def count(self) -> int:
        """How many nodes there are."""
        return self.table.count

    def rows(self, index: NDArray[Any], /) -> NDArray[np.float32]:
        """Of nodes by position."""
        return self.table.rows(np.asarray(self.global_of_position[index], np.int64))

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Of nodes by global id."""
        return self.table.read(start, stop)


@dataclass(frozen=True, eq=False)
class _Scored:
    """What is scored of a part: of each split the edges, and the pairs against them where not all nodes are."""

    part: int
    edges: dict[str, TargetEdges]
    pairs: dict[str, HeldPairs]


@dataclass(eq=False)
class PartsScores:
    """Scores splits from the rows of all nodes; `source` has the edges of all splits."""

    source: PartsSource
    rule: EdgeSplit
    how: Examination
    _found: list[_Scored] | None = field(default=None, init=False, repr=False)

    @torch.no_grad()
    def of(self, rows: RowsOfParts, decoder: Decoder, calls: Calls) -> Scores:
        """The metric on each split; all workers ask at the same time."""
        training = decoder.training
        decoder.eval()
        found = (self._ranked if self.how.against_all else self._told)(rows, decoder, calls)
        decoder.train(training)
        return found

    def _told(self, rows: RowsOfParts, decoder: Decoder, calls: Calls) -> Scores:
        """From the pairs against each edge."""
        found = []
        for name in CODES:
            edge, other = [torch.empty(0)], [torch.empty(0)]
            for scored in self._parts():
                pairs = scored.pairs[name]
                scores = pair_scores(pairs, rows, decoder)
                edge.append(scores[: pairs.edges])
                other.append(scores[pairs.edges :])
            found.append(metric_over_team(self.how.score, torch.cat(edge), torch.cat(other), self.source.team, calls))
        return Scores(*found)

    def _ranked(self, rows: RowsOfParts, decoder: Decoder, calls: Calls) -> Scores:
        """Against all nodes."""
        points = {name: [np.empty(0)] for name in CODES}
        for scored in self._parts():
            held = held_by_part(self.source, scored.part)
            sources = true_sources(held.lists, held.position, held.relation)
            for name in CODES:
                queries = queries_of(scored.edges[name], self.source.directed)
                ranks = ranks_among_all(queries, lambda asked: self._known(asked, sources), rows, decoder)  # noqa: B023
                points[name].append(self.how.score.points(ranks))
        return Scores(*(mean_over_team(np.concatenate(points[name]), self.source.team, calls) for name in CODES))

    def _known(self, asked: Queries, sources: TrueEnds) -> Known:
        """Other true ends by global id."""
        known = sources.of(np.where(asked.at_source, asked.row, -1), asked.relation)
        if not asked.at_source.all():
            left, ends = self._destinations
            known = known.joined(ends.of(np.where(asked.at_source, -1, np.searchsorted(left, asked.kept)), asked.relation))
        return Known(known.query, np.asarray(self.source.parts.global_of_position[known.node], np.int64))

    def _parts(self) -> list[_Scored]:
        """What is scored of each own part."""
        if self._found is None:
            self._found = self._find()
        return self._found

    def _find(self) -> list[_Scored]:
        """One pass over the own parts, and for pairs of any two nodes some over all parts; all workers together."""
        found = list(self._survey())
        if not self.how.score.of_ranks:
            nodes = self.source.parts.manifest.nodes
            for name in CODES:
                own = [scored.edges[name] for scored in found]
                edges = joined(own, typed="type" in self.source.edge_tables)
                pairs = self.how.any_pairs(name, edges, nodes, EdgesOfParts(self.source), self.source.total)
                for scored, some in zip(found, pairs.cut([len(edges) for edges in own]), strict=True):
                    scored.pairs[name] = some
        return found

    def _survey(self) -> Iterator[_Scored]:
        for part in self.source.mine:
            held = held_by_part(self.source, part)
            split, pairs = self.rule.of(held), dict[str, HeldPairs]()
            edges = {name: self.how.scored(name, held, split, self.rule.sizes["train"]) for name in CODES}
            if self.how.score.of_ranks and not self.how.against_all:
                known = known_pairs(held.lists, held.position)
                pairs = {name: self.how.other_sources(name, edges[name], held.nodes, known) for name in CODES}
            yield _Scored(part, edges, pairs)

    @cached_property
    def _destinations(self) -> tuple[NDArray[np.int64], TrueEnds]:
        """The sources of this worker's scored edges, ascending, and the destinations of all edges that leave these."""
        left = np.unique(np.concatenate([edges.source for scored in self._parts() for edges in scored.edges.values()]))
        place, end, relation = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for part in range(len(self.source.parts)):
            held = held_by_part(self.source, part)
            leaves = np.flatnonzero(np.isin(held.source, left))
            edges = held.edges(leaves)
            place.append(np.searchsorted(left, edges.source))
            end.append(edges.destination)
            relation += [] if edges.relation is None else [edges.relation]
        order = np.argsort(np.concatenate(place), kind="stable")
        offsets = np.searchsorted(np.concatenate(place)[order], np.arange(len(left) + 1))
        kinds = np.concatenate(relation)[order] if "type" in self.source.edge_tables else None
        return left, TrueEnds(offsets, np.concatenate(end)[order], kinds)
