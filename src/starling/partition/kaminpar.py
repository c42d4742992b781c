"""`kaminpar`: deep multilevel partitioning in little memory, through the package kaminpar."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.core.environment import thread_count
from starling.core.errors import MissingExtra
from starling.partition.adjacency import Adjacency
from starling.partition.contract import Partitioner, PartitionTask
from starling.partition.graph_files import graph_file
from starling.partition.in_memory import InMemory


class KaMinPar(InMemory):
    """KaMinPar's default preset. Its threads race for moves, so the same seed gives the same parts on one thread only."""

    name = "kaminpar"
    summary = "KaMinPar, deep multilevel on the whole graph in memory (extra: partitioners)"
    source = "Gottesbüren et al. 2021"
    bytes_per_node = 80
    bytes_per_entry = 42

    class Settings(Partitioner.Settings):
        """Settings of KaMinPar."""

        imbalance: float = Field(0.03, gt=0, description="how much more than the mean a part may weigh, as a share of it")
        deterministic: bool = Field(True, description="run on one thread, so that a seed always gives the same parts")

    settings: Settings

    def _library(self) -> Any:
        try:
            import kaminpar
        except ImportError as error:
            raise MissingExtra("kaminpar", "partitioners", "--method kaminpar") from error
        return kaminpar

    def _partition(self, library: Any, graph: Adjacency, task: PartitionTask) -> NDArray[np.int32]:
        library.reseed(task.seed % (1 << 31))
        threads = 1 if self.settings.deterministic else task.threads or thread_count()
        partitioner = library.KaMinPar(threads, library.default_context())
        with graph_file(graph, task.node_load, task.scratch) as path:
            loaded = library.load_graph(str(path), library.GraphFileFormat.METIS)
        return np.asarray(partitioner.compute_partition(loaded, task.parts, self.settings.imbalance), np.int32)
