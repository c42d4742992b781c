"""From a graph's edges to cohesive batches: METIS or other parts as a start, refined by the true cost (`refine.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.kernels.csr import Csr, csr_from_pairs
from starling.partition.contract import PartitionTask
from starling.partition.registry import find_method, make_method
from starling.plan.cohesive.refine import Effort, refine
from starling.plan.cohesive.strategy import Cohesive
from starling.plan.cost import PAPER, BatchCosts, Constants, GcnCost
from starling.stream.edges import EdgeStream

TARGETS_A_BATCH = 1024
_CLUSTER_NODES = 16
"""Targets of the small clusters that move as one while batches are refined."""
_MOST_CLUSTERS = 20_000


@dataclass(frozen=True, eq=False)
class CohesiveTask:
    """What batches are found for: `targets` are training positions, `widths` d_0 … d_K of the model."""

    edges: EdgeStream
    targets: NDArray[Any]
    widths: tuple[int, ...]
    seed: int = 0
    memory: int = 1 << 30
    threads: int | None = None
    constants: Constants = PAPER


def find_batches(task: CohesiveTask, settings: Cohesive.Settings) -> NDArray[np.int32]:
    """The label [V] of every target, batch · clusters a batch + cluster; −1 for nodes that are none."""
    nodes = task.edges.nodes
    batches = settings.batches or -(-len(task.targets) // TARGETS_A_BATCH)
    if batches > len(task.targets):
        raise InputError(
            f"Expected at most {len(task.targets):,} batches, a training node in each, got {batches:,}. Lower --batches."
        )
    grouped = np.arange(nodes) if settings.targets == "all" else np.asarray(task.targets)
    is_target = np.zeros(nodes, np.bool_)
    is_target[grouped] = True
    costs = BatchCosts(read_lists(task.edges, task.threads), GcnCost(task.widths, task.constants))
    start = np.where(is_target, _parts(task, settings.start, batches, is_target), -1).astype(np.int32)
    wanted = min(_MOST_CLUSTERS, max(batches, len(grouped) // _CLUSTER_NODES))
    clusters = _parts(task, settings.start, wanted, is_target) if settings.passes else None
    batch = start
    if settings.passes:
        effort = Effort(warm_passes=settings.passes)
        batch = refine(
            costs,
            start,
            batches,
            tolerance=settings.tolerance,
            clusters=clusters,
            effort=effort,
            seed=task.seed,
            memory=task.memory,
        )
    batch = _numbered_side_by_side(costs.lists, batch, batches)
    label = _with_clusters(batch, clusters if clusters is not None else np.arange(nodes), settings.clusters_per_batch)
    trained = np.zeros(nodes, np.bool_)
    trained[task.targets] = True
    return np.where(trained, label, -1).astype(np.int32)


def read_lists(edges: EdgeStream, threads: int | None = None) -> Csr:
    """In-neighbour lists of a stream, in memory."""
    pairs = [block.pairs for block in edges.blocks()]
    whole = np.concatenate(pairs) if pairs else np.empty((0, 2), np.int32)
    return csr_from_pairs(whole, edges.nodes, threads=threads)


def _parts(task: CohesiveTask, name: str, parts: int, is_target: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Parts by a partitioning method, with equally many targets in each where the method can weigh nodes."""
    kind = find_method(name).kind
    if kind != "edge-cut":
        made = "communities" if kind == "communities" else f"a {kind}"
        raise InputError(f"Cohesive batches start from parts of equal size, and {name} makes {made}. Use metis or flock.")
    method = make_method(name)
    load = is_target.astype(np.int64) if method.uses_load and not is_target.all() else None
    asked = PartitionTask(task.edges, parts, task.seed, task.memory, task.threads, node_load=load)
    return method.assign(asked).owner


def _numbered_side_by_side(lists: Csr, batch: NDArray[np.int32], batches: int) -> NDArray[np.int32]:
    """The same batches numbered along a walk that goes to the batch with most edges to the last one."""
    row = np.repeat(np.arange(lists.rows), np.diff(lists.offsets))
    ends = np.stack([batch[row], batch[lists.neighbours]])
    ends = ends[:, (ends.min(0) >= 0) & (ends[0] != ends[1])].astype(np.int64)
    pairs, count = np.unique(ends[0] * batches + ends[1], return_counts=True)
    left, right = pairs // batches, pairs % batches
    bounds = np.searchsorted(left, np.arange(batches + 1))
    number = np.full(batches, -1, np.int32)
    last = 0
    for at in range(batches):
        number[last] = at
        near = right[bounds[last] : bounds[last + 1]]
        free = number[near] < 0
        if free.any():
            last = int(near[free][np.argmax(count[bounds[last] : bounds[last + 1]][free])])
        elif at + 1 < batches:
            last = int(np.flatnonzero(number < 0)[0])
    return np.where(batch >= 0, number[batch], -1).astype(np.int32)


def _with_clusters(batch: NDArray[np.int32], clusters: NDArray[Any], each: int) -> NDArray[np.int64]:
    """Batches cut into `each` clusters of equal size, along small clusters so that they hold together."""
    targets = np.flatnonzero(batch >= 0)
    order = targets[np.lexsort((targets, clusters[targets], batch[targets]))]
    sizes = np.bincount(batch[order])
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    label = np.full(len(batch), -1, np.int64)
    label[order] = batch[order].astype(np.int64) * each + place * each // np.repeat(sizes, sizes)
    return label
