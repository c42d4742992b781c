"""How much effort and memory each phase gets, from the size of the graph and the budget."""

from __future__ import annotations

from dataclasses import dataclass

from starling.partition.contract import PartitionTask
from starling.partition.flock.coarse import ALL, METIS_BYTES
from starling.partition.passes import pass_bytes

SMALL_FLOCK, LARGE_FLOCK = 8, 64
FEWEST_FLOCKS_A_PART = 30
FEW_TIES = 16
FEWEST_TIES = 3

MOST_SWEEPS, FEWEST_SWEEPS = 60, 8
VISITED_ENTRIES = 300_000_000
"""Neighbours looked at while annealing, over all sweeps: what decides the time on large graphs."""

MANY_PARTS = 256
"""METIS takes longer the more parts there are: beyond so many, two seeds must do."""

SMALL_GRAPH = 1 << 20
"""Entries below which three starts are annealed: they cost little, and small graphs vary most by seed."""

CLUSTERING = 20
"""Bytes a node of phase 1: degree, label, size, strength, waiting."""

ANNEALING = 10
"""Bytes a node of phases 2 and 3 beside counts: place, degree, part; the flock of each is made where it is needed."""

LEAST_WINDOW = 1 << 16
"""Entries of the smallest window worth a look."""

SLACK = 12
"""One share in so many is left to the allocator, which held 7 % beyond what is counted at 10 million nodes."""

_WINDOW_BYTES = 5  # a neighbour, and a share of the offsets
_TIE_BYTES = 24  # a tie, its reverse and the merged row


@dataclass(frozen=True)
class Effort:
    """What the phases may use."""

    window_entries: int
    metis_entries: int
    count_bytes: int
    tie_bytes: int
    few_ties: bool
    keep: int
    flock: int
    sweeps: int
    starts: int
    tries: int
    visits: int

    def keep_of(self, flocks: int) -> int:
        """Ties to keep of each flock."""
        if self.keep:
            return self.keep
        return max(FEWEST_TIES, min(FEW_TIES, self.tie_bytes // _TIE_BYTES // flocks)) if self.few_ties else ALL


def plan_effort(
    task: PartitionTask, entries: int, *, sweeps: int, starts: int, tries: int, flock: int, keep: int, visits: int
) -> Effort:
    """Choose what the settings leave open; `entries` are the neighbours of all nodes together."""
    nodes = task.edges.nodes
    free = task.memory - task.memory // SLACK - pass_bytes(task.edges)
    count_bytes = max(0, (free - ANNEALING * nodes) // 2)
    held = max(CLUSTERING * nodes, ANNEALING * nodes + min(count_bytes, nodes * task.parts))
    metis_entries = max(50_000, task.memory // 5 // METIS_BYTES)
    few_ties = entries > 4 * metis_entries
    size = LARGE_FLOCK if few_ties else SMALL_FLOCK
    return Effort(
        window_entries=max(LEAST_WINDOW, (free - held) // _WINDOW_BYTES),
        metis_entries=metis_entries,
        count_bytes=count_bytes,
        tie_bytes=task.memory // 5,
        few_ties=few_ties,
        keep=keep,
        flock=flock or max(1, min(size, nodes // (FEWEST_FLOCKS_A_PART * task.parts))),
        sweeps=sweeps or max(FEWEST_SWEEPS, min(MOST_SWEEPS, VISITED_ENTRIES // max(entries, 1))),
        starts=starts or (3 if entries <= SMALL_GRAPH else 1),
        tries=tries or (5 if task.parts <= MANY_PARTS else 2),
        visits=visits or 4,
    )
