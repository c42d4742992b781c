"""`flock`, Starling's own method and the default: flocks, METIS on the flock graph, annealing of the copies."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.core.allocator import freed_memory_given_back
from starling.core.assignment import Assignment
from starling.partition.contract import Partitioner, PartitionTask
from starling.partition.flock.anneal import Annealing, anneal
from starling.partition.flock.coarse import Start, flock_graph, start_parts
from starling.partition.flock.counts import LEAST_COUNTS, slots_that_fit
from starling.partition.flock.formation import Formation, fall_in
from starling.partition.flock.plan import ANNEALING, CLUSTERING, SLACK, Effort, plan_effort
from starling.partition.flock.repair import fill_empty_parts
from starling.partition.flock.windows import Windows
from starling.partition.in_memory import spread_evenly
from starling.partition.passes import count_connections, pass_bytes


class Flock(Partitioner):
    """The fewest copies of nodes, in the memory it is given.

    All phases look at the graph through *windows*: the neighbour lists of a range of nodes, gathered in one pass of the
    stream. A graph that fits the budget is one window, kept from then on.

    1. *Flocks*: label propagation with a limit on size makes many tight groups of up to 8 nodes (more where memory is short).
    2. *Flock graph*: each group becomes a node, tied to others by the edges between them, only the heaviest where memory is
       short; METIS cuts it with several seeds, and the cut with the fewest copies wins.
    3. *Annealing*: node by node, exact gains in copies (replication), hot at first and greedy at the end, under a hard cap on
       the load of a part.

    A part holds at most (1 + imbalance) × mean load, or the next whole number; the load is the number of nodes, or the
    task's `node_load` in its place. A directed graph is cut as if it were undirected. The same seed and memory give the same
    parts on any number of threads.
    """

    name = "flock"
    uses_load = True
    summary = "Starling's own: small flocks, METIS on the flock graph, annealing of the copies; streams"
    source = "docs/partitioning.md"

    class Settings(Partitioner.Settings):
        """Settings of flock; 0 lets it choose from the size of the graph and the memory."""

        imbalance: float = Field(0.03, ge=0, description="how much more than the mean a part may hold, as a share of it")
        sweeps: int = Field(0, ge=0, description="annealing sweeps, 0 to choose: 60 on small graphs, fewer on large ones")
        tries: int = Field(
            0, ge=0, description="seeds of METIS on the flock graph, the best of which is taken, 0 to choose: 5 or 2"
        )
        starts: int = Field(0, ge=0, description="starts to anneal, of which the best result is taken, 0 to choose: 3 or 1")
        flock: int = Field(0, ge=0, description="the most nodes of a flock, 0 to choose: 8, or 64 where memory is short")
        keep: int = Field(0, ge=0, description="heaviest ties kept of each flock, 0 to choose: all that fit the memory")
        visits: int = Field(0, ge=0, description="looks at each window while annealing, where there are several, 0 to choose")

    settings: Settings

    def memory_needed(self, task: PartitionTask) -> int:
        """The least state of the phase that holds most: counts may take half of what is free, windows the rest."""
        least = max(CLUSTERING, ANNEALING + 2 * min(task.parts, LEAST_COUNTS))
        return (least * task.edges.nodes + pass_bytes(task.edges)) * SLACK // (SLACK - 1) + SLACK

    def _assign(self, task: PartitionTask) -> Assignment:
        with freed_memory_given_back():  # phases hold much, one after the other
            return self._in_phases(task)

    def _in_phases(self, task: PartitionTask) -> Assignment:
        nodes, parts = task.edges.nodes, task.parts
        if parts == 1 or nodes <= parts:
            return Assignment("edge-cut", parts, np.arange(nodes, dtype=np.int32) % parts)
        degree = count_connections(task.edges, task.progress)
        if not degree.any():
            return Assignment("edge-cut", parts, spread_evenly(nodes, parts, task.node_load), passes=1)
        effort = plan_effort(task, int(degree.sum(dtype=np.int64)), **self.settings.model_dump(exclude={"imbalance"}))
        formation = fall_in(task, degree, effort.flock, effort.window_entries)
        del degree
        windows = Windows(
            task, formation.degree, formation.place, effort.window_entries, formation.flock(), what="gathering flocks"
        )
        part = self._best(task, effort, formation, windows)
        windows.close()
        notes = {"flocks": formation.flocks, "windows": windows.count, "sweeps": effort.sweeps}
        passes = 1 + formation.passes + windows.passes
        owner = part[formation.place].astype(np.int32)
        return Assignment("edge-cut", parts, owner, None, formation.flock()[formation.place], passes, {**notes})

    def _best(self, task: PartitionTask, effort: Effort, formation: Formation, windows: Windows) -> NDArray[np.uint16]:
        """The part of each place: of the starts annealed, the one that ends with the fewest copies."""
        slots = slots_that_fit(formation.degree, task.parts, effort.count_bytes)
        starts = self._starts(task, effort, formation, windows)
        best, fewest = None, math.inf
        for number, start in enumerate(starts):
            part = np.repeat(start.part.astype(np.uint16), formation.sizes())
            load = formation.loads(part, task.parts)
            fill_empty_parts(part, formation.weight, load)
            seed, cap = task.seed * len(starts) + number, self._cap(load, formation.weight)
            plan = Annealing(effort.sweeps, effort.visits, cap, seed, task.threads)
            copies = anneal(windows, formation, part, load, slots, plan)
            if copies < fewest:
                best, fewest = part, copies
        assert best is not None
        return best

    def _starts(self, task: PartitionTask, effort: Effort, formation: Formation, windows: Windows) -> list[Start]:
        """The most promising starts by METIS on the flock graph."""
        keep = effort.keep_of(formation.flocks)
        graph = flock_graph(windows, formation.flock(), formation.first, formation.masses(), keep)
        found = start_parts(
            graph,
            task.parts,
            tries=effort.tries,
            imbalance=self.settings.imbalance,
            entries=effort.metis_entries,
            seed=task.seed,
        )
        return found[: effort.starts]

    def _cap(self, load: NDArray[np.int64], weight: NDArray[np.integer]) -> int:
        """The most a part may hold; never less than whole nodes can reach."""
        total, heaviest = int(load.sum()), int(weight.max(initial=1))
        return max(int((1 + self.settings.imbalance) * total / len(load)), -(-total // len(load)), heaviest)
