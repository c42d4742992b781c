"""What a partitioning method is: one class with typed settings and one method, from an edge stream to an assignment.

`Partitioner.assign` checks what goes in and what comes out; a method's own file holds its `_assign` and nothing else. To add
one, write such a class and enter it in `registry.py`, or keep it in a file of your own: ``--method mine.py:MyPartitioner``.
"""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from starling.core.assignment import Assignment
from starling.core.errors import InputError, StarlingError
from starling.core.memory import format_bytes
from starling.core.progress import SILENT, Progress
from starling.partition.edge_parts import part_blocks
from starling.stream.edges import EdgeStream

MOST_PARTS = 65535
"""Parts are numbered in 16 bits, and one number is kept for "not decided yet"."""

MOST_NODES = (1 << 31) - 1

INSTEAD_OF_MEMORY = "flock"
"""The streaming method to name when a graph is too large for an in-memory one."""

MethodKind = Literal["edge-cut", "vertex-cut", "communities"]


@dataclass(frozen=True)
class PartitionTask:
    """What to partition, into how many parts, with what means.

    `memory` bounds what a method itself holds. `scratch` is a folder for files of the size of the edges (vertex-cuts write a
    part for each edge); without it they are held in memory. `node_load` [V] says how much each node weighs when a method
    evens out its parts; all the same where it is None.
    """

    edges: EdgeStream
    parts: int
    seed: int = 0
    memory: int = 1 << 30
    threads: int | None = None
    progress: Progress = SILENT
    scratch: Path | None = None
    node_load: NDArray[np.integer] | None = None


class Partitioner(ABC):
    """Decides who owns each node and, in a vertex-cut, each edge.

    `kind` is what comes out: an edge-cut, a vertex-cut, or an edge-cut packed from whole communities. `streaming` methods
    hold O(V) and read the edges in blocks; the others hold the graph. `uses_load` methods take a task's `node_load`.
    """

    name: ClassVar[str] = ""
    kind: MethodKind = "edge-cut"
    streaming: ClassVar[bool] = True
    uses_load: ClassVar[bool] = False
    summary: ClassVar[str] = ""
    source: ClassVar[str] = ""

    class Settings(BaseModel):
        """Settings of the method, each with its description; unknown ones are refused."""

        model_config = ConfigDict(extra="forbid", frozen=True)

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings if settings is not None else type(self).Settings()

    @final
    def assign(self, task: PartitionTask) -> Assignment:
        """Who owns what. Refuses a task that cannot be done before it starts."""
        self._check_task(task)
        try:
            assignment = self._assign(task)
        except (StarlingError, MemoryError):
            raise
        except Exception as error:
            if self._ours:
                raise  # a fault of ours: the traceback is for us
            raise InputError(f"The method {self._title} failed: {in_one_line(error)}.") from error
        self._check_result(task, assignment)
        return assignment

    @property
    def _title(self) -> str:
        return self.name or type(self).__name__

    @property
    def _ours(self) -> bool:
        return type(self).__module__.startswith("starling.")

    @abstractmethod
    def _assign(self, task: PartitionTask) -> Assignment: ...

    def memory_needed(self, task: PartitionTask) -> int:
        """About how many bytes the method will hold for this task; 0 where nobody can say."""
        return 0

    @final
    def checked_memory_needed(self, task: PartitionTask) -> int:
        """`memory_needed`, whoever wrote it: a fault in a user's method is one sentence."""
        try:
            needed = self.memory_needed(task)
        except StarlingError:
            raise
        except Exception as error:
            if self._ours:
                raise
            raise InputError(f"memory_needed of the method {self._title} failed: {in_one_line(error)}.") from error
        if not isinstance(needed, int | float | np.number):
            raise InputError(f"Expected a number of bytes from memory_needed of the method {self._title}, got {needed!r}.")
        return int(needed)

    def _check_task(self, task: PartitionTask) -> None:
        edges = task.edges
        if not 1 <= task.parts <= MOST_PARTS:
            raise InputError(f"Expected between 1 and {MOST_PARTS:,} parts, got {task.parts:,}.")
        if edges.nodes > MOST_NODES:
            raise InputError(f"Expected at most {MOST_NODES:,} nodes to partition, got {edges.nodes:,}.")
        if task.node_load is not None:
            self._check_load(task.node_load, edges.nodes)
        needed = self.checked_memory_needed(task)
        if needed <= task.memory:
            return
        size = f"{edges.nodes:,} nodes and {edges.edges:,} edges in {task.parts:,} parts"
        short = f"{self.name} needs about {format_bytes(needed)} for {size}; --memory leaves it {format_bytes(task.memory)}."
        if self.streaming:
            raise InputError(f"{short} Raise --memory, or ask for fewer parts.")
        raise InputError(f"{short} Use --method {INSTEAD_OF_MEMORY}, which streams the edges, or raise --memory.")

    def _check_load(self, load: NDArray[np.integer], nodes: int) -> None:
        if not self.uses_load:
            raise InputError(f"{self.name} cannot weigh nodes. Balance its parts afterwards with --balance.")
        if load.shape != (nodes,) or load.dtype.kind not in "iu" or (nodes and int(load.min()) < 0):
            got = f"{load.dtype} values of shape {load.shape}" + (f", the least {load.min()}" if load.size else "")
            raise InputError(f"Expected a whole number of at least 0 as the load of each of {nodes:,} nodes, got {got}.")

    def _check_result(self, task: PartitionTask, made: object) -> None:
        """Trust no method, least of all a user's: owners are parts, and a vertex-cut places every edge."""
        fault = self._fault(task, made)
        if fault:
            kind = StarlingError if self._ours else InputError
            raise kind(f"The method {self._title} is broken: it made {fault}.")

    def _fault(self, task: PartitionTask, made: object) -> str | None:
        expected = "vertex-cut" if self.kind == "vertex-cut" else "edge-cut"
        if not isinstance(made, Assignment):
            return f"no Assignment, but a {type(made).__name__}"
        if made.kind != expected or made.parts != task.parts:
            return f"{made.kind}, {made.parts} parts, instead of {expected}, {task.parts} parts"
        return _fault_of_nodes(made, task.edges.nodes) or _fault_of_edges(made, task.edges.edges)


def in_one_line(error: Exception) -> str:
    """An error's kind, message and the line of the user's file that raised it."""
    *_, last = traceback.extract_tb(error.__traceback__)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{': ' if text else ''}{text} ({Path(last.filename).name}, line {last.lineno})"


def _fault_of_nodes(assignment: Assignment, nodes: int) -> str | None:
    owner, locality = assignment.owner, assignment.locality
    for name, array in (("owner", owner), ("edge_part", assignment.edge_part), ("locality", locality)):
        if not isinstance(array, np.ndarray) and (name == "owner" or array is not None):
            return f"{name} a {type(array).__name__}, not a NumPy array"
    if owner.shape != (nodes,) or owner.dtype != np.int32:
        return f"owners of shape {owner.shape} and type {owner.dtype}, not one int32 for each of {nodes} nodes"
    if nodes and not 0 <= int(owner.min()) <= int(owner.max()) < assignment.parts:
        return f"owners from {owner.min()} to {owner.max()}, outside 0 … {assignment.parts - 1}"
    if locality is not None and (locality.shape != (nodes,) or locality.dtype != np.int32):
        return f"a locality of shape {locality.shape} and type {locality.dtype}, not one int32 for each of {nodes} nodes"
    return None


def _fault_of_edges(assignment: Assignment, edges: int) -> str | None:
    placed = assignment.edge_part
    if assignment.kind == "edge-cut":
        return None if placed is None else "an edge-cut that places edges"
    if placed is None or placed.shape != (edges,) or placed.dtype != np.uint16:
        return f"a vertex-cut without one uint16 part for each of {edges} edges"
    if any(int(block.max()) >= assignment.parts for block in part_blocks(placed)):
        return f"edges in parts outside 0 … {assignment.parts - 1}"
    return None
