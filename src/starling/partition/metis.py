"""`metis`: the k-way multilevel partitioner most GNN systems use, through pymetis."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.partition.adjacency import Adjacency
from starling.partition.contract import INSTEAD_OF_MEMORY, Partitioner, PartitionTask
from starling.partition.in_memory import InMemory
from starling.partition.metis_call import cut_by_metis


class Metis(InMemory):
    """METIS k-way on the whole graph, on one thread; the same seed gives the same parts."""

    name = "metis"
    summary = "METIS, multilevel k-way on the whole graph in memory"
    source = "Karypis and Kumar 1998; DistDGLv2 §5.3.1"
    bytes_per_node = 150
    bytes_per_entry = 100

    class Settings(Partitioner.Settings):
        """Settings of METIS."""

        objective: Literal["cut", "volume"] = Field(
            "cut",
            description="what to minimise: edges cut, or communication volume, which is the replication that training pays",
        )
        imbalance: float = Field(0.03, ge=0.001, description="how much more than the mean a part may weigh, as a share of it")

    settings: Settings

    def _library(self) -> Any:
        import pymetis

        return pymetis

    def _partition(self, library: Any, graph: Adjacency, task: PartitionTask) -> NDArray[np.int32]:
        return cut_by_metis(
            task.parts,
            graph.start,
            graph.neighbour,
            what="the graph",
            instead=f"take --method {INSTEAD_OF_MEMORY}, which streams it",
            seed=task.seed,
            node_weight=task.node_load,
            imbalance=self.settings.imbalance,
            volume=self.settings.objective == "volume",
        )
