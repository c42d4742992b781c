"""Clusters for cluster batches, made by any partitioning method: METIS or SPRING parts, Louvain or Leiden communities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.progress import SILENT, Progress
from starling.partition.contract import MOST_PARTS, PartitionTask
from starling.partition.registry import make_method
from starling.plan.cluster import Cluster
from starling.stream.edges import EdgeStream

NODES_A_CLUSTER = 500


def find_clusters(
    edges: EdgeStream,
    settings: Cluster.Settings,
    *,
    seed: int = 0,
    memory: int = 1 << 30,
    threads: int | None = None,
    progress: Progress = SILENT,
) -> NDArray[np.int32]:
    """The cluster of every node [V], numbered from 0.

    A community method finds as many as there are; any other edge-cut cuts `settings.clusters`, or one for every 500 nodes.
    """
    method = make_method(settings.method)
    if method.kind == "vertex-cut":
        raise InputError(
            f"Clusters are sets of nodes, and {settings.method} cuts edges apart. Use metis, spring, louvain or leiden."
        )
    finds_number = method.kind == "communities"
    if finds_number and settings.clusters is not None:
        raise InputError(f"{settings.method} finds the number of clusters itself. Leave out 'clusters', or use metis.")
    wanted = settings.clusters or max(1, round(edges.nodes / NODES_A_CLUSTER))
    parts = 1 if finds_number else min(wanted, MOST_PARTS, max(1, edges.nodes))
    assignment = method.assign(PartitionTask(edges, parts, seed, memory, threads, progress))
    return assignment.locality if finds_number and assignment.locality is not None else assignment.owner
