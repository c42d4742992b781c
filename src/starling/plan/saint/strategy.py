"""`saint`: a random sub-graph a step, with GraphSAINT's normalisation of aggregation and loss (Zeng et al. 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.core.errors import InputError, StarlingError
from starling.core.keyed import stream_key
from starling.kernels.frontier import FrontierPool
from starling.kernels.induced import take_within
from starling.plan.batch import BatchPlan, Block
from starling.plan.saint.draws import ByEdge, ByNode, ByWalk, Draws, NodeDraws
from starling.plan.saint.normalisation import Counts, no_counts
from starling.plan.strategy import PlanTask, Strategy

_MOST_TRIES = 1000
_REPEATS, _FEW = 16, 100_000
"""Draws beyond so many for each that there is, and so many at all, only draw the whole graph again and again."""
WALK_LENGTH = 2


class Saint(Strategy):
    """Draws nodes, edges or walks and computes every layer on the sub-graph induced by the nodes they touch.

    A sub-graph without a training node is drawn again, here and while counting, so counts and steps follow the same chances.
    """

    name = "saint"
    summary = "random sub-graphs, normalised without bias (GraphSAINT)"

    class Settings(Strategy.Settings):
        """How a sub-graph is drawn."""

        draws: Draws = Field("walk", description="what is drawn: nodes, edges or random walks")
        count: int = Field(1000, ge=1, description="how many nodes, edges or walks make a sub-graph")
        walk_length: int | None = Field(None, ge=1, description="steps of a walk (2)")
        coverage: float = Field(50, gt=0, description="sub-graphs are counted until nodes were in this many on average")
        steps: int | None = Field(None, ge=1, description="steps an epoch (as many as cover the graph once)")

    settings: Settings

    def __init__(self, settings: Settings, task: PlanTask) -> None:
        super().__init__(settings, task)
        graph = task.graph
        if graph.incoming.rows < graph.rows:
            raise InputError("GraphSAINT draws from a whole graph, got a part with halo nodes. Use --strategy mini on parts.")
        if settings.draws != "walk" and settings.walk_length is not None:
            raise InputError(f"A walk length was given, but {settings.draws}s are drawn. Set draws = walk or leave it out.")
        if settings.draws == "edge" and not len(graph.incoming.neighbours):
            raise InputError("Expected edges to draw, got a graph without any. Draw nodes.")
        there = len(graph.incoming.neighbours) if settings.draws == "edge" else graph.rows
        if settings.count > (most := max(_REPEATS * there, _FEW)):
            raise InputError(
                f"Expected at most {most:,} {settings.draws}s in a sub-graph, as the graph has {graph.rows:,} nodes and "
                f"{len(graph.incoming.neighbours):,} edges, got {settings.count:,}. Lower 'count' of the strategy saint."
            )
        self._trained = np.zeros(graph.rows, np.bool_)
        self._trained[self.train_rows] = True
        self._frontiers = FrontierPool(graph.rows)
        self._draws = self._make_draws()
        self._counts = self._count()
        mean_size = int(self._counts.rows.sum(dtype=np.int64)) / self._counts.drawn
        self._steps = settings.steps or max(1, round(graph.rows / mean_size))

    @property
    def steps_per_epoch(self) -> int:
        """As asked for, or as many as touch every node once on average."""
        return self._steps

    def _make_draws(self) -> NodeDraws:
        settings, graph, threads = self.settings, self.task.graph, self.task.threads
        if settings.draws == "node":
            return ByNode(graph, settings.count, threads)
        if settings.draws == "edge":
            return ByEdge(graph, settings.count, threads)
        return ByWalk(graph, settings.count, settings.walk_length or WALK_LENGTH, threads)

    def _count(self) -> Counts:
        """Draw sub-graphs until they hold every row `coverage` times on average."""
        lists, threads = self.task.graph.incoming, self.task.threads
        counts, held = no_counts(self.task.graph.rows, len(lists.neighbours)), 0
        while held < self.settings.coverage * self.task.graph.rows:
            with self._frontiers.frontier(self._drawn("saint/count", 0, counts.drawn)) as frontier:
                counts.add(lists, frontier.rows, frontier.places, threads)
                held += len(frontier)
        return counts

    def _drawn(self, stream: str, epoch: int, step: int) -> NDArray[Any]:
        """The rows of one sub-graph, as often as they were drawn."""
        for attempt in range(_MOST_TRIES):
            drawn = self._draws.rows(stream_key(self.task.seed, f"{stream}/{attempt}", epoch, step))
            if self._trained[drawn].any():
                return drawn
        raise StarlingError(f"{_MOST_TRIES} sub-graphs in a row held no training node. Raise 'count' of the strategy saint.")

    def _plan(self, epoch: int, step: int) -> BatchPlan:
        with self._frontiers.frontier(self._drawn("saint", epoch, step)) as frontier:
            rows = frontier.rows.copy()
            edges = take_within(self.task.graph.incoming, rows, frontier.places, self.task.threads)
        scale = self._counts.edge_scale(rows, edges.offsets, edges.entry)
        block = Block(edges.offsets, edges.neighbours, edges.entry, len(rows), edge_scale=scale)
        outputs = np.flatnonzero(self._trained[rows]).astype(np.int32)
        weight = self._counts.loss_weight(rows[outputs], len(self.train_rows))
        return BatchPlan(epoch, step, rows, (block,) * self.task.layers, rows[outputs], outputs, weight)
