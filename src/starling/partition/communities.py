"""`louvain` and `leiden`: communities found by igraph, for cluster batches, packed into parts (GraphTheta §4.1)."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from pydantic import Field

from starling.core.assignment import Assignment
from starling.kernels.partition.packing import pack_in_order
from starling.partition.adjacency import read_adjacency
from starling.partition.contract import Partitioner, PartitionTask
from starling.partition.in_memory import READ_PASSES, bytes_held


class Communities(Partitioner):
    """Communities of any number and size; each stays whole, the largest go first to the least loaded part.

    The community of every node is the assignment's `cluster`, which the shards keep for cluster batches, and its `locality`.
    Parts are only as even as the communities let them be: with fewer communities than parts, some parts stay empty.
    """

    kind = "communities"
    streaming = False
    uses_load = True

    class Settings(Partitioner.Settings):
        """What both methods can be told."""

        resolution: float = Field(1.0, gt=0, description="higher for more and smaller communities")

    settings: Settings

    def memory_needed(self, task: PartitionTask) -> int:
        """From the measured peak of igraph."""
        return bytes_held(task, a_node=200, an_entry=120)

    def _assign(self, task: PartitionTask) -> Assignment:
        import igraph

        graph = read_adjacency(task)
        whole = igraph.Graph(n=graph.nodes, edges=graph.pairs())
        del graph
        with _drawing_from(igraph, task.seed):
            community = np.asarray(self._find(whole), np.int32)
        load = np.ones(len(community), np.int64) if task.node_load is None else task.node_load
        weight = np.bincount(community, load).astype(np.int64)
        part = np.empty(len(weight), np.int32)
        pack_in_order(np.argsort(-weight, kind="stable"), weight, task.parts, part)
        sizes = np.bincount(community)
        notes = {"communities": len(sizes), "largest_community": int(sizes.max(initial=0))}
        return Assignment("edge-cut", task.parts, part[community], None, community, READ_PASSES, {**notes}, cluster=community)

    @abstractmethod
    def _find(self, graph: Any) -> list[int]:
        """The community of every node of an igraph graph, numbered from 0."""


class Louvain(Communities):
    """Multilevel modularity (Blondel et al. 2008)."""

    name = "louvain"
    summary = "communities by multilevel modularity, kept whole, for cluster batches"
    source = "Blondel et al. 2008; GraphTheta §4.1"

    def _find(self, graph: Any) -> list[int]:
        found: list[int] = graph.community_multilevel(resolution=self.settings.resolution).membership
        return found


class Leiden(Communities):
    """Leiden on modularity (Traag et al. 2019), in several rounds: every community is connected."""

    name = "leiden"
    summary = "communities by Leiden on modularity, kept whole and connected, for cluster batches"
    source = "Traag et al. 2019"

    class Settings(Communities.Settings):
        """Settings of Leiden."""

        iterations: int = Field(10, ge=-1, description="rounds of moving, refining and aggregating; -1 until nothing improves")

    settings: Settings

    def _find(self, graph: Any) -> list[int]:
        found: list[int] = graph.community_leiden(
            objective_function="modularity", resolution=self.settings.resolution, n_iterations=self.settings.iterations
        ).membership
        return found


@contextmanager
def _drawing_from(igraph: Any, seed: int) -> Iterator[None]:
    """Let igraph draw from a generator of our own; the process's `random` stays untouched."""
    igraph.set_random_number_generator(random.Random(seed))
    try:
        yield
    finally:
        igraph.set_random_number_generator(random)
