"""One hop of a mini-batch: which in-edges of the rows at hand are computed on.

A sampler is made once and asked once a hop; each answer is a pure function of (seed, epoch, step, hop) and the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.keyed import stream_key
from starling.kernels.sampling import Taken, take_all, take_uniform
from starling.kernels.typed_sampling import ALL, EdgeRules, take_by_rules
from starling.kernels.weighted_sampling import take_weighted
from starling.plan.fanouts import Fanout
from starling.plan.source import NeighbourSource


@dataclass(frozen=True)
class Moment:
    """When a choice is made; hop 0 is that of the targets' own neighbours."""

    seed: int
    epoch: int
    step: int
    hop: int

    @property
    def key(self) -> np.uint64:
        """The key of all choices of this hop."""
        return stream_key(self.seed, f"sample/{self.hop}", self.epoch, self.step)


class HopSampler(ABC):
    """Takes in-edges of rows, each row once in `rows`."""

    @abstractmethod
    def take(self, rows: NDArray[Any], moment: Moment) -> Taken:
        """The in-edges to compute on."""


@dataclass(frozen=True, eq=False)
class AllNeighbours(HopSampler):
    """Every in-edge."""

    graph: NeighbourSource
    threads: int | None = None

    def take(self, rows: NDArray[Any], moment: Moment) -> Taken:
        """Whole lists."""
        return take_all(self.graph.incoming, rows, self.threads)


@dataclass(frozen=True, eq=False)
class UniformNeighbours(HopSampler):
    """`fanout` in-edges of each row, all equally likely."""

    graph: NeighbourSource
    fanout: int
    replace: bool = False
    threads: int | None = None

    def take(self, rows: NDArray[Any], moment: Moment) -> Taken:
        """A sample scaled by degree / taken."""
        return take_uniform(
            self.graph.incoming,
            rows,
            self.graph.positions_of(rows),
            self.fanout,
            moment.key,
            replace=self.replace,
            threads=self.threads,
        )


class WeightedNeighbours(HopSampler):
    """`fanout` in-edges of each row, likely as they are heavy; edges of weight 0 are never taken."""

    def __init__(self, graph: NeighbourSource, fanout: int, replace: bool = False, threads: int | None = None) -> None:
        if graph.edge_weight is None:
            raise InputError("Weighted sampling needs a weight for every edge, and the graph has none. Sample uniformly.")
        wrong = np.flatnonzero(~(np.isfinite(graph.edge_weight) & (graph.edge_weight >= 0)))
        if len(wrong):
            raise InputError(
                f"Expected finite edge weights of at least 0 to sample by, got {graph.edge_weight[wrong[0]]} "
                f"at edge {int(graph.incoming.edge[wrong[0]]):,}."
            )
        self.graph, self.weight, self.fanout, self.replace, self.threads = graph, graph.edge_weight, fanout, replace, threads

    def take(self, rows: NDArray[Any], moment: Moment) -> Taken:
        """A sample with a scale for each edge."""
        return take_weighted(
            self.graph.incoming,
            self.weight,
            rows,
            self.graph.positions_of(rows),
            self.fanout,
            moment.key,
            replace=self.replace,
            threads=self.threads,
        )


class NeighboursByType(HopSampler):
    """So many in-edges of each relation, all equally likely; `fanouts` has a number for each."""

    def __init__(
        self, graph: NeighbourSource, fanouts: Sequence[Fanout], replace: bool = False, threads: int | None = None
    ) -> None:
        if graph.edge_type is None:
            raise InputError("Fan-outs by relation need edge types, and the graph has none. Give plain numbers, such as 15,10.")
        self.graph, self.replace, self.threads = graph, replace, threads
        self._rules = EdgeRules(rule_numbers(fanouts), graph.edge_type)

    def take(self, rows: NDArray[Any], moment: Moment) -> Taken:
        """A sample of each relation, with a scale for each edge."""
        return take_by_rules(
            self.graph.incoming,
            self._rules,
            rows,
            self.graph.positions_of(rows),
            None,
            moment.key,
            replace=self.replace,
            threads=self.threads,
        )


def rule_numbers(fanouts: Sequence[Fanout]) -> NDArray[np.int64]:
    """Fan-outs as a kernel takes them."""
    return np.array([ALL if fanout == "all" else fanout for fanout in fanouts], np.int64)
