"""Who owns what: the message a partitioner gives and a shard builder takes, and its form on disk.

The two meet only here, so a partition made by another tool is a directory like this one, not a code path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.manifest import Count, Manifest, Record
from starling.core.npy import map_array, save_array

CutKind = Literal["edge-cut", "vertex-cut"]
Note = str | int | float | bool | None


@dataclass(frozen=True)
class Assignment:
    """The owner of every node and, for a vertex-cut, of every edge.

    `owner` is int32 [V]. `edge_part` is uint16 [E] in stream order, None for an edge-cut (an edge is with its destination's
    owner). `locality` is int32 [V] or None: nodes of one part are laid out in ascending locality, so that a cluster's rows
    lie together. `cluster` is int32 [V] or None: the community of each node, numbered from 0, which shards keep as a node table for
    cluster batches. `notes` is what the method wants reported (clusters found, moves made, …).
    """

    kind: CutKind
    parts: int
    owner: NDArray[np.int32]
    edge_part: NDArray[np.uint16] | None = None
    locality: NDArray[np.int32] | None = None
    passes: int = 0
    notes: dict[str, Note] = field(default_factory=dict)
    cluster: NDArray[np.int32] | None = None


class Making(Record):
    """What an assignment depends on beside graph, method, settings and seed: enough to make it again.

    `memory` is the budget, in which methods take larger or smaller steps; `tables` the SHA-256 of the node tables that the loads
    in `balance` were counted from.
    """

    memory: Count
    balance: tuple[str, ...] = ()
    tolerance: float | None = None
    tables: dict[str, str] = {}


class AssignmentManifest(Manifest):
    """An assignment on disk: ``owner.npy``, and ``edge_part.npy``, ``locality.npy``, ``cluster.npy`` where there are such."""

    format: Literal["starling-assignment"] = "starling-assignment"
    version: int = 1
    kind: CutKind
    parts: Count
    nodes: Count
    edges: Count
    passes: Count = 0
    method: str
    seed: int = 0
    settings: dict[str, Note] = {}
    notes: dict[str, Note] = {}
    making: Making | None = None


def save_assignment(
    assignment: Assignment,
    directory: Path,
    *,
    edges: int,
    method: str,
    seed: int,
    settings: dict[str, Note],
    making: Making | None = None,
) -> AssignmentManifest:
    """Write an assignment into an existing empty directory."""
    arrays: dict[str, NDArray[Any] | None] = {
        "owner": assignment.owner,
        "edge_part": assignment.edge_part,
        "locality": assignment.locality,
        "cluster": assignment.cluster,
    }
    for name, array in arrays.items():
        if array is not None:
            save_array(directory / f"{name}.npy", array)
    return AssignmentManifest(
        kind=assignment.kind,
        parts=assignment.parts,
        nodes=len(assignment.owner),
        edges=edges,
        passes=assignment.passes,
        method=method,
        seed=seed,
        settings=settings,
        notes=assignment.notes,
        making=making,
    ).seal(directory)


def load_assignment(directory: Path) -> tuple[Assignment, AssignmentManifest]:
    """Read an assignment back, arrays memory-mapped, owners checked to be parts that exist."""
    manifest = AssignmentManifest.read(directory)
    manifest.check_sizes(directory)
    arrays = {
        name: map_array(directory / f"{name}.npy") if f"{name}.npy" in manifest.files else None
        for name in ("owner", "edge_part", "locality", "cluster")
    }
    owner = arrays["owner"]
    if owner is None or owner.shape != (manifest.nodes,) or owner.dtype != np.int32:
        raise InputError(f"{directory} has no owner for each of its {manifest.nodes:,} nodes. Partition again.")
    if len(owner) and not 0 <= int(owner.min()) <= int(owner.max()) < manifest.parts:
        raise InputError(f"{directory} names owners outside 0 … {manifest.parts - 1}. Partition again.")
    for name in ("locality", "cluster"):
        values = arrays[name]
        if values is not None and (values.shape != owner.shape or values.dtype != np.int32):
            raise InputError(f"{directory} has a {name}, but not one int32 for each node. Partition again.")
    assignment = Assignment(
        manifest.kind,
        manifest.parts,
        owner,
        arrays["edge_part"],
        arrays["locality"],
        manifest.passes,
        manifest.notes,
        arrays["cluster"],
    )
    return assignment, manifest
