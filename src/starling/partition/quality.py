"""How good an assignment is: copies, cut and balance, counted exactly as the edges stream by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from starling.core.assignment import Assignment, Note
from starling.core.progress import SILENT, Progress
from starling.kernels.parallel import parallel_for
from starling.kernels.partition.quality import count_copies, count_cut, mark_halo, mark_owners, mark_replicas
from starling.partition.contract import PartitionTask
from starling.partition.edge_parts import part_blocks
from starling.partition.passes import Pairs, edge_blocks
from starling.partition.uniform import Random
from starling.stream.edges import EdgeStream

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Quality:
    """What an assignment costs.

    `halo_rows` are copies of nodes beyond the owned ones: with an edge-cut, the sources of edges into a part that it does not
    own (one hop); with a vertex-cut, mirrors. `replication_factor` = Σ|V_i| / |V| = 1 + halo_rows / nodes, and `halo_share` =
    halo_rows / Σ|V_i|, the part of all rows held that are somebody else's. `edge_cut` is the share of edges whose ends have
    different owners. Balances are max / mean over the parts; an edge counts where it is stored. `train_balance` is None
    without training nodes. `part_nodes`, `part_halo` and `part_edges` count what each part owns and holds.
    """

    parts: int
    nodes: int
    edges: int
    halo_rows: int
    replication_factor: float
    halo_share: float
    edge_cut: float
    node_balance: float
    edge_balance: float
    train_balance: float | None
    part_nodes: tuple[int, ...]
    part_halo: tuple[int, ...]
    part_edges: tuple[int, ...]

    def bytes_per_layer(self, width: int) -> int:
        """Bytes that one layer of this width moves between parts, forward, in float32: each halo row once."""
        return self.halo_rows * width * _FLOAT_BYTES

    def record(self) -> dict[str, Note]:
        """The measures that a manifest keeps."""
        names = ("replication_factor", "edge_cut", "halo_share", "node_balance", "edge_balance", "train_balance")
        return {name: getattr(self, name) for name in names}


def measure(
    edges: EdgeStream,
    assignment: Assignment,
    *,
    train: NDArray[np.bool_] | None = None,
    memory: int = 1 << 30,
    progress: Progress = SILENT,
) -> Quality:
    """Measure an assignment in one pass, or as many as keep V × parts / 8 bytes of copy bits within half the memory."""
    nodes, parts = edges.nodes, assignment.parts
    words = max(1, min((parts + 63) // 64, memory // 2 // (8 * max(nodes, 1))))
    counter = _Counter(edges, assignment, progress)
    held = [counter.count(base, words, with_cut=base == 0) for base in range(0, parts, 64 * words)]
    owned = np.bincount(assignment.owner, minlength=parts)
    halo = np.concatenate(held)[:parts] - owned
    copies = nodes + int(halo.sum())
    return Quality(
        parts=parts,
        nodes=nodes,
        edges=edges.edges,
        halo_rows=copies - nodes,
        replication_factor=copies / nodes if nodes else 1.0,
        halo_share=(copies - nodes) / copies if copies else 0.0,
        edge_cut=counter.cut / edges.edges if edges.edges else 0.0,
        node_balance=_balance(owned),
        edge_balance=_balance(counter.held),
        train_balance=_balance(np.bincount(assignment.owner[train], minlength=parts)) if train is not None else None,
        part_nodes=tuple(owned.tolist()),
        part_halo=tuple(halo.tolist()),
        part_edges=tuple(counter.held.tolist()),
    )


def measure_random(
    edges: EdgeStream, parts: int, *, seed: int = 0, memory: int = 1 << 30, progress: Progress = SILENT
) -> Quality:
    """The same graph dealt out at random: what to hold a measure against."""
    dealt = Random().assign(PartitionTask(edges, parts, seed, memory))
    return measure(edges, dealt, memory=memory, progress=progress)


class _Counter:
    """Passes over the edges that count copies and, on the first, edges held and cut."""

    def __init__(self, edges: EdgeStream, assignment: Assignment, progress: Progress) -> None:
        self._edges, self._assignment, self._progress = edges, assignment, progress
        self.held, self.cut = np.zeros(assignment.parts, np.int64), 0

    def count(self, base: int, words: int, *, with_cut: bool) -> NDArray[np.int64]:
        """Copies of nodes in parts base … base + 64 × words − 1."""
        owner = self._assignment.owner
        sets = np.zeros((self._edges.nodes, words), np.uint64)
        mark_owners(owner, base, sets)
        for pairs, placed in self._blocks():

            def work(first: int, last: int, pairs: Pairs = pairs, placed: NDArray[np.uint16] | None = placed) -> None:
                for job in range(first, last):  # two jobs that write to different places, so they may run side by side
                    if job == 1:
                        self._tally(pairs, placed)
                    elif placed is None:
                        mark_halo(pairs, owner, base, sets)
                    else:
                        mark_replicas(pairs, placed, base, sets)

            parallel_for(2 if with_cut else 1, work)
        return count_copies(sets)

    def _tally(self, pairs: Pairs, placed: NDArray[np.uint16] | None) -> None:
        held = np.zeros_like(self.held)
        self.cut += count_cut(pairs, self._assignment.owner, held)
        self.held += held if placed is None else np.bincount(placed, minlength=len(held))

    def _blocks(self) -> Iterator[tuple[Pairs, NDArray[np.uint16] | None]]:
        blocks, edge_part = edge_blocks(self._edges, "measuring", self._progress), self._assignment.edge_part
        if edge_part is None:
            return ((pairs, None) for pairs in blocks)
        return zip(blocks, part_blocks(edge_part), strict=True)


def _balance(loads: NDArray[np.int64]) -> float:
    """Max / mean; 1 where there is nothing to balance."""
    return float(loads.max() * len(loads) / loads.sum()) if loads.sum() else 1.0
