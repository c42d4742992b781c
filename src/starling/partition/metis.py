"""`metis`: the k-way multilevel partitioner most GNN systems use, through pymetis."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.partition.adjacency import Adjacency
from starling.partition.contract import Partitioner, PartitionTask
from starling.partition.in_memory import InMemory
from starling.partition.quiet import printing_to_stderr


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
        width = library.zero_copy_dtype()
        options = library.Options(
            objtype=library.ObjType.CUT if self.settings.objective == "cut" else library.ObjType.VOL,
            seed=1 + task.seed % ((1 << 31) - 1),  # METIS draws from rand(), to which seeds 0 and 1 are the same
            ufactor=round(1000 * self.settings.imbalance),
        )
        loads = None if task.node_load is None else np.ascontiguousarray(task.node_load, width)
        with printing_to_stderr():
            result = library.part_graph(
                task.parts,
                adjacency=library.CSRAdjacency(graph.start.astype(width), graph.neighbour.astype(width)),
                vweights=loads,
                recursive=False,
                options=options,
            )
        return np.asarray(result.vertex_part, np.int32)
