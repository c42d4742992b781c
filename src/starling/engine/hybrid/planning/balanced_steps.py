"""Steps of balanced workers: plans of each batch's own cut (balanced.py), and the features, labels and tables to fill them with.

Features that a worker reads and does not own are fetched once, each node's once for all batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.features import DenseFeatures, Features, SpreadFeatures
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.planning.active import ActiveSet
from starling.engine.hybrid.planning.balanced import BatchCutter, BatchShare
from starling.engine.hybrid.planning.steps import FixedBatches, Search, TeamStrategy, TeamTask
from starling.engine.hybrid.share.source import WorkerSource
from starling.kernels.frontier import FrontierPool
from starling.kernels.sampling import take_all
from starling.plan.cohesive.batches import CohesiveBatches
from starling.plan.cost import GcnCost


class TeamBalanced(TeamStrategy):
    """Fixed batches, each computed by the map that was made for it."""

    fixed: FixedBatches

    def __init__(self, task: TeamTask, shares: Sequence[BatchShare], fixed: FixedBatches) -> None:
        super().__init__(task)
        self._shares, self.fixed = shares, fixed

    @property
    def steps_per_epoch(self) -> int:
        """One for every batch."""
        return self.fixed.batches.steps

    def _search(self, number: int, batch: int) -> ActiveSet:
        """Over the rows of the batch's own cut."""
        graph = self._shares[batch].graph
        return ActiveSet(graph, self.team, FrontierPool(graph.rows), number)

    def _found(self, epoch: int, step: int, active: ActiveSet) -> Search:
        share = self._shares[self.fixed.batches.number(epoch, step)]
        layers, _ = active.outwards(share.targets, [partial(take_all, share.graph.incoming)] * self.layers)
        return Search(layers, share.targets, np.arange(len(share.targets)))


@dataclass(frozen=True, eq=False)
class BalancedBatches:
    """All batches of a run as one worker computes them."""

    shares: tuple[BatchShare, ...]
    sources: tuple[WorkerSource, ...]
    mirror_features: tuple[Features, ...]


def balance_batches(source: WorkerSource, batches: CohesiveBatches, layers: int, cost: GcnCost) -> BalancedBatches:
    """Map, cut and fetch every batch; `batches` are of positions. All workers call it together."""
    graph, team = source.graph, source.team
    assert not graph.spread, "whole neighbour lists are moved, and were put together when the run began"
    if source.features.learnt:
        raise InputError("--balance-workers copies input features, got learnt embeddings. Leave out --balance-workers.")
    owned = graph.position[: graph.owned]
    order = np.argsort(owned)
    cutter = BatchCutter(graph, team, layers, cost, source.calls)
    shares = []
    for number in range(batches.steps):
        positions = np.sort(batches.targets(number))
        mine = positions[np.isin(positions, owned)]
        shares.append(cutter.cut(number, order[np.searchsorted(owned[order], mine)].astype(np.int64)))
    rows = _ForeignRows(source, shares)
    sources = tuple(rows.source_of(share) for share in shares)
    return BalancedBatches(
        tuple(shares), sources, tuple(rows.features(share.graph.position[share.graph.owned :]) for share in shares)
    )


class _ForeignRows:
    """Own rows and, after them, rows of others that some batch reads here, each once."""

    def __init__(self, source: WorkerSource, shares: Sequence[BatchShare]) -> None:
        self._source, team, graph = source, source.team, source.graph
        held = graph.position[: graph.owned]
        read = np.unique(np.concatenate([np.empty(0, np.int64), *(share.graph.position for share in shares)]))
        foreign = np.setdiff1d(read, held)
        places = np.concatenate([held, foreign])
        order = np.argsort(places)
        self._positions, self._place = places[order], order
        wanted = _by_holder(team, source.calls, held, foreign)
        x = fetch_rows(team, source.calls, [rows for rows, _ in wanted], source.features)
        into = np.concatenate([np.empty(0, np.int64), *(index for _, index in wanted)])
        fetched = np.empty((len(foreign), source.features.width), np.float32)
        fetched[into] = x
        self._tables = [source.features, DenseFeatures(fetched)]
        self._labels = _with_foreign(source, source.y, [rows for rows, _ in wanted], into)
        weighted = None if source.weighted_degree is None else source.weighted_degree.numpy()[: graph.owned]
        self._weighted = _with_foreign(source, weighted, [rows for rows, _ in wanted], into)

    def features(self, positions: NDArray[np.int64]) -> Features:
        return SpreadFeatures(self._tables, self._places(positions))

    def source_of(self, share: BatchShare) -> WorkerSource:
        """What the worker reads in this batch."""
        graph, source = share.graph, self._source
        everywhere = self._places(graph.position)
        tables = {
            name: torch.from_numpy(fetch_rows(source.team, source.calls, share.entries, table.numpy())[graph.incoming.edge])
            for name, table in source.edge_tables.items()
        }
        return dataclasses.replace(
            source,
            graph=graph,
            features=self.features(graph.position[: graph.owned]),
            y=None if self._labels is None else self._labels[everywhere[: graph.owned]],
            splits={"train": share.targets},
            edge_tables=tables,
            weighted_degree=None if self._weighted is None else torch.from_numpy(self._weighted[everywhere]),
        )

    def _places(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._place[np.searchsorted(self._positions, positions)]


def _with_foreign(
    source: WorkerSource, own: NDArray[Any] | None, wanted: list[NDArray[np.int64]], into: NDArray[np.int64]
) -> NDArray[Any] | None:
    if own is None:
        return None
    fetched = fetch_rows(source.team, source.calls, wanted, own)
    foreign = np.empty_like(fetched)
    foreign[into] = fetched
    return np.concatenate([own, foreign])


def _by_holder(
    team: Team, calls: Calls, held: NDArray[np.int64], foreign: NDArray[np.int64]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """For every worker: rows of its own that are wanted here, and which of `foreign` they are. Everybody answers what it holds."""
    order = np.argsort(held)
    asked = team.all_lists(calls.next_tag(), foreign)
    answers = []
    for positions in asked:
        place = np.minimum(np.searchsorted(held[order], positions), max(len(held) - 1, 0))
        found = np.flatnonzero(held[order][place] == positions) if len(held) else np.empty(0, np.int64)
        answers.append((order[place[found]] if len(held) else found, found))
    rows = team.swap_lists(calls.next_tag(), [rows for rows, _ in answers])
    index = team.swap_lists(calls.next_tag(), [index for _, index in answers])
    return list(zip(rows, index, strict=True))


def fetch_rows(team: Team, calls: Calls, wanted: Sequence[NDArray[np.int64]], table: Features | NDArray[Any]) -> NDArray[Any]:
    """Rows of everybody's tables, `wanted[w]` of worker w's, by worker."""
    asked = team.swap_lists(calls.next_tag(), list(wanted))
    given = [table.rows(rows) if isinstance(table, Features) else table[rows] for rows in asked]
    return np.concatenate(team.swap_rows(calls.next_tag(), given))
