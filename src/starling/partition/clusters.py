"""The start of every streaming clustering: each node a cluster of its own, with its degree as volume."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from starling.kernels.partition.clustering import CLUSTER, DEGREE
from starling.partition.contract import PartitionTask
from starling.partition.passes import count_connections


@dataclass(frozen=True)
class Clusters:
    """`rows` [V, 2 or 4] holds each node's state (kernels/partition/clustering.py), `volume` [V] the degrees in each cluster.

    Both are updated in place as edges stream by. A cluster bears the number of the node that founded it.
    """

    rows: NDArray[np.int32]
    volume: NDArray[np.integer]
    total: int


def found_clusters(task: PartitionTask, columns: int = 2) -> Clusters:
    """Count degrees (one pass) and let each node found its cluster; columns beyond the first two start at −1."""
    degree = count_connections(task.edges, task.progress)
    rows = np.full((len(degree), columns), -1, np.int32)
    rows[:, CLUSTER] = np.arange(len(degree))
    rows[:, DEGREE] = degree
    total = int(degree.sum(dtype=np.int64))
    return Clusters(rows, degree if total < 1 << 31 else degree.astype(np.int64), total)
