"""`mtkahypar`: multilevel partitioning of graphs and hypergraphs, through the package mtkahypar."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.core.environment import thread_count
from starling.core.errors import MissingExtra
from starling.partition.adjacency import Adjacency
from starling.partition.contract import Partitioner, PartitionTask
from starling.partition.graph_files import graph_file, nets_file
from starling.partition.in_memory import InMemory


class MtKaHyPar(InMemory):
    """Mt-KaHyPar on the graph (cut) or on the hypergraph with one net {v} ∪ N(v) a node (km1).

    Connectivity of that hypergraph, divided by the nodes, is exactly the replication factor less one: the best replication
    there is to have, at 2 to 14 times the processor time of flock on the graphs of docs/partitioning-table.md.
    """

    name = "mtkahypar"
    summary = "Mt-KaHyPar, cut or replication itself as objective, in memory (extra: partitioners)"
    source = "Gottesbüren et al. 2021"
    bytes_per_node = 300
    bytes_per_entry = 120

    class Settings(Partitioner.Settings):
        """Settings of Mt-KaHyPar."""

        objective: Literal["cut", "km1"] = Field("cut", description="what to minimise: edges cut, or replication")
        imbalance: float = Field(0.03, gt=0, description="how much more than the mean a part may weigh, as a share of it")
        deterministic: bool = Field(True, description="use the preset whose result does not depend on threads")

    settings: Settings

    def _library(self) -> Any:
        try:
            import mtkahypar
        except ImportError as error:
            raise MissingExtra("mtkahypar", "partitioners", "--method mtkahypar") from error
        return mtkahypar

    def _partition(self, library: Any, graph: Adjacency, task: PartitionTask) -> NDArray[np.int32]:
        initialised = _initialise(library, task.threads or thread_count())
        library.set_seed(task.seed % (1 << 31))
        presets = library.PresetType
        context = initialised.context_from_preset(presets.DETERMINISTIC if self.settings.deterministic else presets.DEFAULT)
        context.logging = False
        if self.settings.objective == "cut":
            context.set_partitioning_parameters(task.parts, self.settings.imbalance, library.Objective.CUT)
            with graph_file(graph, task.node_load, task.scratch) as path:
                loaded = initialised.graph_from_file(str(path), context, library.FileFormat.METIS)
        else:
            context.set_partitioning_parameters(task.parts, self.settings.imbalance, library.Objective.KM1)
            with nets_file(graph, task.node_load, task.scratch) as path:
                loaded = initialised.hypergraph_from_file(str(path), context, library.FileFormat.HMETIS)
        return np.asarray(loaded.partition(context).get_partition(), np.int32)


_pools: dict[str, Any] = {}


def _initialise(library: Any, threads: int) -> Any:
    """The library's thread pool, which it makes once a process: the first task says how many threads it has."""
    if library.__name__ not in _pools:
        _pools[library.__name__] = library.initialize(threads)
    return _pools[library.__name__]
