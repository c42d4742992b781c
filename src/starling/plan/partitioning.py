"""From a graph to a parts directory: choose the parts, assign, balance, measure, build the shards.

`partition` and `store` know nothing of one another; the assignment they share is written between the two steps, and stays in
the parts directory, so that shards can be built again and another tool's partition can take its place.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.artifact import staged
from starling.core.assignment import Assignment, Making, Note, save_assignment
from starling.core.errors import InputError
from starling.core.memory import format_bytes, peak_rss_bytes
from starling.core.progress import SILENT, Progress
from starling.partition.balance import Load, balance, memory_for_balance
from starling.partition.contract import MOST_PARTS, PartitionTask
from starling.partition.halo_hops import sizes_with_hops
from starling.partition.ownership import to_edge_cut
from starling.partition.quality import Quality, measure, measure_random
from starling.partition.registry import find_method, make_method
from starling.plan.capacity import fewest_parts, more_parts, worker_bytes
from starling.plan.loads import loads_of, mask_of, tables_behind
from starling.plan.partition_request import PartitionRequest as PartitionRequest
from starling.plan.partition_request import refuse_kept_edge_cut, refuse_misunderstandings
from starling.plan.sub_parts import order_for_sub_parts
from starling.store.foreign.any_layout import read_foreign_assignment
from starling.store.foreign.dgl_layout import NodeTypes
from starling.store.graph import Graph
from starling.store.shards import PROGRAM_BYTES, build_parts, check_tables, memory_for_shards


@dataclass(frozen=True)
class PartitionReport:
    """What came out, for people and scripts."""

    path: Path
    assignment: Assignment
    quality: Quality
    random: Quality
    """The same graph dealt out at random, to hold the quality against."""
    assign_seconds: float
    shard_seconds: float
    assign_peak_rss_bytes: int


def partition_graph(
    graph: Graph, output: Path, request: PartitionRequest, *, force: bool = False, progress: Progress = SILENT
) -> PartitionReport:
    """Cut `graph` and write the parts directory, whole or not at all."""
    if graph.path.resolve().is_relative_to(output.resolve()):
        raise InputError(f"{output} is the graph to cut, or holds it. Choose another place for the parts.")
    refuse_misunderstandings(request)
    check_tables(graph.manifest)
    loads = loads_of(graph, request.balance)
    _refuse_small_budget(graph, request, loads, 1 if request.parts == "auto" else request.parts)
    with staged(output, force=force) as staging:
        began = time.monotonic()
        scratch = staging / "assigning"
        scratch.mkdir()
        assignment, quality = _assign(graph, request, loads, scratch, progress)
        loads.clear()  # nobody needs them any more, and the shards need room
        if request.sub_parts > 1:
            assignment = order_for_sub_parts(
                graph.edge_stream(),
                assignment,
                request.sub_parts,
                memory=_room(request),
                seed=request.seed,
                progress=progress,
            )
        random = measure_random(graph.edge_stream(), assignment.parts, seed=request.seed, memory=_room(request))
        assigned, peak = time.monotonic(), peak_rss_bytes()
        directory = staging / "assignment"
        directory.mkdir()
        _save(graph, request, assignment, directory)
        shutil.rmtree(scratch)
        build_parts(
            graph,
            directory,
            staging,
            halo_hops=request.halo_hops,
            sub_parts=request.sub_parts,
            memory=request.memory,
            threads=request.threads,
            progress=progress,
            quality=quality.record(),
        )
    return PartitionReport(output, assignment, quality, random, assigned - began, time.monotonic() - assigned, peak)


def _save(graph: Graph, request: PartitionRequest, assignment: Assignment, directory: Path) -> None:
    """Write the assignment with every setting in force, defaults too: they may be others in another version."""
    method, settings = f"from {request.assignment.name}" if request.assignment is not None else request.method, {}
    if request.assignment is None:
        in_force = make_method(request.method, request.settings).settings.model_dump(mode="json")
        settings = {name: value if isinstance(value, Note) else str(value) for name, value in in_force.items()}
    making = Making(
        memory=request.memory,
        balance=request.balance,
        tolerance=request.tolerance if request.balance else None,
        tables=tables_behind(graph, request.balance),
    )
    edges = graph.manifest.edges
    save_assignment(assignment, directory, edges=edges, method=method, seed=request.seed, settings=settings, making=making)


def _assign(
    graph: Graph, request: PartitionRequest, loads: list[Load], scratch: Path, progress: Progress
) -> tuple[Assignment, Quality]:
    """An assignment for the parts asked for; with ``auto``, the fewest parts whose largest one fits a worker."""
    if request.assignment is not None:
        given = _given_assignment(graph, request.assignment)
        refuse_kept_edge_cut(request, given.kind)
        if request.parts not in ("auto", given.parts):
            raise InputError(f"{request.assignment} has {given.parts:,} parts, -p says {request.parts:,}. Leave out -p.")
        return _finish(graph, request, given, loads, progress)
    if request.parts != "auto":
        return _assign_once(graph, request, request.parts, loads, scratch, progress)
    assert request.worker_memory is not None, "refused before"
    parts = fewest_parts(graph.manifest, request.worker_memory)
    while True:
        _refuse_small_budget(graph, request, loads, parts)
        assignment, quality = _assign_once(graph, request, parts, loads, scratch, progress)
        needed = _largest_worker(graph, request, assignment, quality, progress)
        if needed <= request.worker_memory:
            return assignment, quality
        parts = more_parts(parts, needed, request.worker_memory)


def _largest_worker(
    graph: Graph, request: PartitionRequest, assignment: Assignment, quality: Quality, progress: Progress
) -> int:
    """The memory that the largest part takes, with the hops asked for around it."""
    halo, held = quality.part_halo, quality.part_edges
    if assignment.kind == "edge-cut" and request.halo_hops != 1:
        sizes = sizes_with_hops(graph.edge_stream(), assignment, request.halo_hops, memory=_room(request), progress=progress)
        halo, held = sizes.halo, sizes.edges
    return max(worker_bytes(graph.manifest, *sizes) for sizes in zip(quality.part_nodes, halo, held, strict=True))


def _assign_once(
    graph: Graph, request: PartitionRequest, parts: int, loads: list[Load], scratch: Path, progress: Progress
) -> tuple[Assignment, Quality]:
    method, task = make_method(request.method, request.settings), _task(graph, request, loads, parts, scratch, progress)
    if method.uses_load:
        task = dataclasses.replace(task, node_load=_load_to_aim_at(loads))
    assignment = method.assign(task)
    return _finish(graph, request, assignment, loads, progress)


def _load_to_aim_at(loads: list[Load]) -> NDArray[Any] | None:
    """What a method that weighs nodes evens out while it cuts: edges, where they are to be balanced.

    Hubs make edges the load furthest from the number of nodes. Aiming at it leaves less for the balancing pass to tear apart.
    """
    return next((load.weight + 1 for load in loads if load.name == "edges"), None)


def _room(request: PartitionRequest) -> int:
    """What of the budget is for data."""
    return max(request.memory - PROGRAM_BYTES, request.memory // 2)


def _task(
    graph: Graph, request: PartitionRequest, loads: list[Load], parts: int, scratch: Path | None, progress: Progress
) -> PartitionTask:
    """The task of a method, which has what the loads to balance leave; the load to aim at is a copy."""
    held = sum(load.weight.nbytes * (2 if load.name == "edges" else 1) for load in loads)
    memory = max(_room(request) - held, 0)
    return PartitionTask(graph.edge_stream(), parts, request.seed, memory, request.threads, progress, scratch)


def _finish(
    graph: Graph, request: PartitionRequest, assignment: Assignment, loads: list[Load], progress: Progress
) -> tuple[Assignment, Quality]:
    """Make a vertex-cut ready for training, even out the loads, and measure."""
    edges = graph.edge_stream()
    if assignment.kind == "vertex-cut" and not request.keep_vertex_cut:
        assignment = to_edge_cut(assignment)
    if loads:
        assignment = balance(
            assignment, edges, loads, tolerance=request.tolerance, memory=_room(request), seed=request.seed, progress=progress
        )
    return assignment, measure(edges, assignment, train=mask_of(graph, "train"), memory=_room(request), progress=progress)


def _refuse_small_budget(graph: Graph, request: PartitionRequest, loads: list[Load], parts: int) -> None:
    """Balancing and shards come last; what they need is known first."""
    nodes, edges = graph.manifest.nodes, graph.edge_stream()
    if not 1 <= parts <= MOST_PARTS:
        return  # the method says so
    if request.assignment is None and not find_method(request.method).streaming:
        task = _task(graph, request, loads, parts, None, SILENT)
        if make_method(request.method, request.settings).checked_memory_needed(task) > task.memory:
            return  # the method says so, and names another one
    least = memory_for_shards(nodes, edges.edges, parts, request.halo_hops)
    if loads:
        least = max(least, PROGRAM_BYTES + memory_for_balance(edges, loads, parts))
    if request.memory < least:
        work = "Balancing and building" if loads else "Building"
        raise InputError(
            f"{work} {parts:,} parts of {nodes:,} nodes needs --memory of at least {format_bytes(least)}, "
            f"got {format_bytes(request.memory)}."
        )


def _given_assignment(graph: Graph, path: Path) -> Assignment:
    return read_foreign_assignment(path, graph.manifest.nodes, graph.manifest.edges, _node_types(graph))


def _node_types(graph: Graph) -> NodeTypes | None:
    if "type" not in graph.manifest.node_tables:
        return None
    return NodeTypes(np.asarray(graph.node_table("type")), graph.manifest.node_types)
