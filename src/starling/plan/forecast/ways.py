"""The ways to train that a forecast compares: a strategy, a parallelism, a sync, and so many workers on so many parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starling.plan.fanouts import Fanout

Parallel = Literal["hybrid", "data"]
Sync = Literal["gradient", "average"]


@dataclass(frozen=True)
class Way:
    """One way to train."""

    strategy: str
    parallel: Parallel
    sync: Sync
    parts: int
    workers: int
    boundary: float = 1.0
    batch_size: int | None = None
    fanouts: tuple[Fanout, ...] | None = None
    batches: int | None = None
    """cohesive: how many batches."""

    @property
    def alone(self) -> bool:
        """One process that reads the whole graph."""
        return self.workers == 1 and self.boundary == 1 and not self.in_turn

    @property
    def in_turn(self) -> bool:
        """Whether each worker has one of its parts in memory at a time, and models are averaged: out of core."""
        return self.sync == "average"

    @property
    def exact(self) -> bool:
        """Whether its gradients are those of the whole graph, or of samples of neighbours; sub-graphs leave edges out."""
        return self.boundary == 1 and self.sync == "gradient" and self.strategy not in ("cluster", "saint")

    @property
    def words(self) -> str:
        """What a person calls it."""
        place = "one process" if self.alone else f"{self.parallel}, {self.workers} worker{'s' * (self.workers > 1)}"
        more = [f"{self.parts} parts in turn"] if self.in_turn else []
        more += [f"boundary {self.boundary:g}"] if self.boundary < 1 else []
        return ", ".join([self.strategy, place, *more])
