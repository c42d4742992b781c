"""What the user asks of `starling partition`, and what is refused before any work: flags that contradict or change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from starling.core.assignment import Note
from starling.core.errors import InputError
from starling.core.manifest import Record
from starling.partition.registry import METHODS, make_method


class PartitionRequest(Record):
    """What the user asked for."""

    parts: int | Literal["auto"]
    method: str = "flock"
    settings: dict[str, Note] = {}
    """Settings of the method, by name."""
    seed: int = 0
    memory: int = 1 << 30
    threads: int | None = None
    halo_hops: int = Field(default=1, ge=0, le=3)
    sub_parts: int = Field(default=1, ge=1)
    balance: tuple[str, ...] = ()
    tolerance: float = Field(default=0.05, ge=0)
    keep_vertex_cut: bool = False
    worker_memory: int | None = None
    """With ``parts="auto"``: the memory a worker has."""
    assignment: Path | None = None
    """A partition made elsewhere (METIS .part file, DGL folder, assignment directory), used instead of a method."""


def refuse_misunderstandings(request: PartitionRequest) -> None:
    """A flag that would change nothing, or contradicts another one, is a misunderstanding."""
    if request.assignment is not None:
        _refuse_beside_assignment(request)
    elif request.worker_memory is not None and request.parts != "auto":
        raise InputError(f"--worker-memory chooses the number of parts, and -p {request.parts} gives it. Leave one out.")
    elif request.worker_memory is None and request.parts == "auto":
        raise InputError("Expected --worker-memory with --parts auto: how much memory a worker has, e.g. --worker-memory 2GiB.")
    if "tolerance" in request.model_fields_set and not request.balance:
        raise InputError(
            "--tolerance says how even --balance makes the loads, and no --balance is given. Add it, or leave it out."
        )
    if request.keep_vertex_cut:
        _refuse_beside_vertex_cut(request)


def refuse_kept_edge_cut(request: PartitionRequest, kind: str) -> None:
    """A given partition, once read, must be a vertex-cut to be kept as one."""
    if request.keep_vertex_cut and kind != "vertex-cut":
        raise InputError(f"--keep-vertex-cut is for vertex-cuts, and {request.assignment} is an edge-cut. Leave it out.")


def _refuse_beside_assignment(request: PartitionRequest) -> None:
    given = {
        "--method": "method" in request.model_fields_set,
        "--set": bool(request.settings),
        "--worker-memory": request.worker_memory is not None,
    }
    for flag in (flag for flag, is_given in given.items() if is_given):
        raise InputError(f"{flag} is for cutting a graph, and --assignment {request.assignment} is cut already. Leave one out.")


def _refuse_beside_vertex_cut(request: PartitionRequest) -> None:
    if request.assignment is None and make_method(request.method, request.settings).kind != "vertex-cut":
        known = ", ".join([name for name, method in METHODS.items() if method.kind == "vertex-cut"] + ["hash --set by=source"])
        raise InputError(f"--keep-vertex-cut is for methods that make a vertex-cut ({known}), which {request.method} does not.")
    if request.balance:
        raise InputError("--balance moves whole nodes, which a pure vertex-cut does not own. Leave out --keep-vertex-cut.")
    if request.halo_hops != 1:
        raise InputError(
            f"A pure vertex-cut has no halo hops to choose, got --halo-hops {request.halo_hops}. Leave out one of --halo-hops and "
            "--keep-vertex-cut."
        )
