"""Clusters for cluster batches, made by any partitioning method: METIS or SPRING parts, Louvain or Leiden communities."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.progress import SILENT, Progress
from starling.partition.contract import MOST_PARTS, PartitionTask
from starling.partition.registry import make_method
from starling.plan.cluster import Cluster
from starling.store.shard_layout import CLUSTER_TABLE
from starling.stream.edges import EdgeStream

NODES_A_CLUSTER = 500
STORED = "stored"
"""The method that takes the clusters from the node table `cluster`, where `partition --method louvain` or the user put them."""


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
    assert settings.method != STORED, "read, not found"
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
    return assignment.cluster if finds_number and assignment.cluster is not None else assignment.owner


def refuse_no_clusters(place: Path, tables: Iterable[str], settings: Cluster.Settings) -> None:
    """Refuse a directory without the node table `cluster`, and a number of clusters where they are there already."""
    if CLUSTER_TABLE not in tables:
        raise InputError(
            f"Expected the clusters of strategy.method={STORED} in a node table '{CLUSTER_TABLE}', which {place} lacks. "
            "Partition with --method louvain or leiden, or use another method."
        )
    if settings.clusters is not None:
        raise InputError(f"The clusters of strategy.method={STORED} are there already. Leave out 'clusters', or use metis.")


def stored_clusters(values: NDArray[Any], nodes: int) -> NDArray[np.int32]:
    """Clusters as they stand in a node table of a graph of `nodes` nodes, checked to be whole numbers below that."""
    if values.ndim != 1 or values.dtype.kind not in "iu":
        got = f"{values.dtype} values of shape {values.shape}"
        raise InputError(f"Expected a whole number for each node in the table '{CLUSTER_TABLE}', got {got}.")
    if len(values) and not 0 <= int(values.min()) <= int(values.max()) < nodes:
        got = f"{values.min()} to {values.max()}"
        raise InputError(
            f"Expected clusters from 0 to {nodes - 1:,} in the table '{CLUSTER_TABLE}', got {got}. Number them from 0."
        )
    return values.astype(np.int32)
