"""What a forecast is about: a graph, its parts, or bare numbers; each knows how it is cut and how large steps are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from starling.core.errors import InputError
from starling.core.manifest import read_json
from starling.core.progress import SILENT, Progress
from starling.plan.fanouts import Fanout, one_a_layer
from starling.plan.forecast.cut import (
    MOST_EDGES_TO_CUT,
    Likelihood,
    assumed_cut,
    copies_ratio,
    cut_of_parts,
    measured_cut,
    whole,
)
from starling.plan.forecast.facts import GraphFacts, facts_of_graph, facts_of_parts
from starling.plan.forecast.sizes import Sizes, cluster_sizes, drawn_sizes, global_sizes, mini_sizes, saint_sizes
from starling.plan.forecast.ways import Way
from starling.plan.source import source_of_graph
from starling.store.graph import Graph, open_graph
from starling.store.parts_manifest import PartsManifest

if TYPE_CHECKING:
    from starling.plan.source import NeighbourSource

MOST_EDGES_TO_DRAW = 10_000_000
"""Of larger graphs no batches are drawn on trial: their lists would take more memory than a forecast should."""
_MOST_PARTS_TO_CUT = 16
_COHESION = 0.55
"""What cohesive batches take of the rows and edges of random ones (CM-GCN, Figure 5: 44 to 54 % less)."""


class Subject(ABC):
    """A graph in numbers, and the answers that depend on how well it is known."""

    facts: GraphFacts
    path: Path | None = None
    parts: int | None = None
    even_edges = False
    """Whether its cut is taken to have edges evened out, which must then be asked for."""

    @abstractmethod
    def cut(self, shares: int) -> Likelihood:
        """How it falls into so many shares."""

    def sizes(self, way: Way, layers: int) -> Sizes:
        """The steps of a way to train."""
        if way.strategy == "global":
            return global_sizes(self.facts, layers)
        if way.strategy == "cluster":
            return cluster_sizes(self.facts, layers)
        if way.strategy == "saint":
            return self._sub_graphs(layers)
        if way.strategy == "cohesive":
            size = max(1, self.facts.train // (way.batches or 1))
            found = self._batches(one_a_layer(None, layers), size)
            return Sizes(found.likely.times(_COHESION), found.safe)
        fanouts = one_a_layer(way.fanouts, layers)
        found = self._batches(fanouts, way.batch_size)
        if way.parallel == "data" and not way.in_turn and way.workers > 1:  # workers share a step's targets
            mine = self._batches(fanouts, max(1, round(found.likely.targets / way.workers)))
            return Sizes(replace(mine.likely, steps=found.likely.steps), replace(mine.safe, steps=found.safe.steps))
        return found

    def _batches(self, fanouts: tuple[Fanout, ...], batch_size: int | None) -> Sizes:
        return mini_sizes(self.facts, fanouts, batch_size)

    def _sub_graphs(self, layers: int) -> Sizes:
        return saint_sizes(self.facts, layers)

    @property
    def notes(self) -> list[str]:
        """What was assumed, in words."""
        return list(self.facts.assumptions)


class Numbers(Subject):
    """A graph that is not here; `edge_balance` is that of its cut, where the user knows it."""

    def __init__(self, facts: GraphFacts, *, edge_balance: float | None = None) -> None:
        self.facts, self._edge_balance, self.even_edges = facts, edge_balance, edge_balance is not None

    def cut(self, shares: int) -> Likelihood:
        """Assumed."""
        return assumed_cut(self.facts, shares, edge_balance=self._edge_balance)

    @property
    def notes(self) -> list[str]:
        """What was assumed, in words."""
        hubs = (
            []
            if self._edge_balance
            else ["edges of the largest part: as hubs make it (say --edge-balance, as of partition --balance)"]
        )
        return [*super().notes, "cut: a quarter of a random deal's copies for time and traffic, four fifths for memory", *hubs]


class PartsSubject(Subject):
    """A graph that is cut already."""

    def __init__(self, path: Path, manifest: PartsManifest) -> None:
        self.path, self.parts, self._manifest, self.facts = path, manifest.parts, manifest, facts_of_parts(manifest)

    def cut(self, shares: int) -> Likelihood:
        """As its manifest says, for as many shares as there are parts, or fewer."""
        if shares == 1:
            return whole(self.facts)
        return cut_of_parts(self._manifest, shares) if shares <= self._manifest.parts else assumed_cut(self.facts, shares)


class GraphSubject(Subject):
    """A graph directory: cut and sampled on trial where it is small enough."""

    def __init__(self, graph: Graph, *, seed: int = 0, progress: Progress = SILENT) -> None:
        self.path, self._graph, self._seed, self._progress = graph.path, graph, seed, progress
        self.facts = facts_of_graph(graph)
        self._cuts: dict[int, Likelihood] = {}
        self._batched: dict[tuple[tuple[Fanout, ...], int | None], Sizes] = {}
        self._ratio: float | None = None

    def cut(self, shares: int) -> Likelihood:
        """Made on trial, as `starling train --workers` would make it, up to a size; beyond it assumed after the last trial."""
        if shares == 1:
            return whole(self.facts)
        if shares not in self._cuts:
            tried = len(self._cuts) + 1
            if tried * self.facts.edges <= MOST_EDGES_TO_CUT and shares <= _MOST_PARTS_TO_CUT:
                made = measured_cut(self._graph.edge_stream(), shares, seed=self._seed, progress=self._progress)
                self._ratio = copies_ratio(self.facts, made.likely)
                self._cuts[shares] = made
            else:
                return assumed_cut(self.facts, shares, known=self._ratio)
        return self._cuts[shares]

    def _batches(self, fanouts: tuple[Fanout, ...], batch_size: int | None) -> Sizes:
        if self.facts.edges > MOST_EDGES_TO_DRAW:
            return mini_sizes(self.facts, fanouts, batch_size)
        if (fanouts, batch_size) not in self._batched:
            settings = {"fanouts": fanouts, "batch_size": batch_size}
            train = np.flatnonzero(np.asarray(self._graph.node_table("train")))
            self._batched[fanouts, batch_size] = drawn_sizes(
                self._lists, train, len(fanouts), "mini", settings, seed=self._seed
            )
        return self._batched[fanouts, batch_size]

    def _sub_graphs(self, layers: int) -> Sizes:
        if self.facts.edges > MOST_EDGES_TO_DRAW:
            return saint_sizes(self.facts, layers)
        train = np.flatnonzero(np.asarray(self._graph.node_table("train")))
        # what is counted beforehand is how often nodes are met; for sizes alone, once will do
        return drawn_sizes(self._lists, train, layers, "saint", {"coverage": 1}, seed=self._seed)

    @cached_property
    def _lists(self) -> NeighbourSource:
        return source_of_graph(self._graph)

    @property
    def notes(self) -> list[str]:
        """What was assumed, in words."""
        found = super().notes
        if self.facts.edges > MOST_EDGES_TO_CUT:
            found.append(
                "cut: a quarter of a random deal's copies for time and traffic, four fifths for memory (partition to know)"
            )
        if self.facts.edges > MOST_EDGES_TO_DRAW:
            found.append("batches: reckoned from degrees, none was drawn")
        return found


def open_subject(path: Path, *, seed: int = 0, progress: Progress = SILENT) -> Subject:
    """A graph directory or a parts directory."""
    kind = read_json(path).get("format")
    if kind == "starling-parts":
        return PartsSubject(path, PartsManifest.read(path))
    if kind != "starling-graph":
        raise InputError(f"Expected a graph or parts directory, got {kind!r} in {path}.")
    return GraphSubject(open_graph(path), seed=seed, progress=progress)
