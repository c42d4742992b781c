"""Parts that each train on their own training nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.part_source import PartSource
from starling.engine.data.parts_source import column
from starling.engine.fill import FilledBatch, Filler
from starling.plan.cluster import Cluster
from starling.plan.find_clusters import STORED, find_clusters, refuse_no_clusters, stored_clusters
from starling.plan.mini import Mini
from starling.plan.registry import make_strategy
from starling.plan.strategy import Strategy
from starling.store.shard_layout import CLUSTER_TABLE
from starling.train.averaging.evaluation import PartsEvaluation
from starling.train.averaging.parts_work import Lessons, PartsWork


@dataclass(frozen=True, eq=False)
class NodeLessons(Lessons):
    """Steps on the training nodes of one part."""

    strategy: Strategy
    filler: Filler

    @property
    def steps_per_epoch(self) -> int:
        """As many as the strategy says."""
        return self.strategy.steps_per_epoch

    def batch(self, epoch: int, step: int) -> FilledBatch:
        """A plan, filled."""
        return self.filler.fill(self.strategy.plan(epoch, step))


@dataclass(eq=False)
class NodePartsWork(PartsWork):
    """A model weighs as much as its part has training nodes."""

    cluster_memory: int = 1 << 30
    """Of finding clusters in a part."""
    _clusters: dict[int, NDArray[Any]] = field(default_factory=dict, init=False)

    @property
    def sizes(self) -> Sequence[int]:
        """Training nodes of every part."""
        return self.source.train_sizes

    def _evaluate_in(self, folder: Path) -> PartsEvaluation:
        return PartsEvaluation(self.source, self.shelf, self.memory, folder, self.plan.device)

    def _made(self, part: PartSource) -> NodeLessons:
        plan = self.plan
        return NodeLessons(self._strategy(part), Filler(part, seed=plan.seed, device=plan.device, reuse=plan.reuse))

    def _strategy(self, part: PartSource) -> Strategy:
        """The strategy on one part; a batch is at most as large as the part has training nodes."""
        plan, train, settings = self.plan, part.splits["train"], self.plan.settings
        if isinstance(settings, Mini.Settings) and settings.batch_size is not None:
            settings = settings.model_copy(update={"batch_size": min(settings.batch_size, len(train))})
        clusters = self._clusters_of(part, settings) if isinstance(settings, Cluster.Settings) else None
        return make_strategy(plan.strategy, settings, part.neighbour_source(), train, plan.layers, plan.seed, clusters=clusters)

    def _clusters_of(self, part: PartSource, settings: Cluster.Settings) -> NDArray[Any]:
        """Clusters of a part's own nodes, found the first time it has its turn; halo nodes are in none."""
        if part.part not in self._clusters:
            if settings.method == STORED:
                found = self._stored_clusters(part, settings)
            else:
                found = find_clusters(part.edge_stream(), settings, seed=self.plan.seed, memory=self.cluster_memory)
                found[part.owned :] = -1
            self._clusters[part.part] = found
        return self._clusters[part.part]

    def _stored_clusters(self, part: PartSource, settings: Cluster.Settings) -> NDArray[Any]:
        parts = self.source.parts
        refuse_no_clusters(parts.path, parts.manifest.node_tables, settings)
        found = np.full(part.nodes, -1, np.int32)
        found[: part.owned] = stored_clusters(column(parts.shard(part.part), CLUSTER_TABLE), parts.manifest.nodes)
        return found
