"""From an assignment to parts: who owns what becomes shards on disk, out of core.

1. Look at the edges once (degrees, cuts), number the nodes by part, sub-part, type, inner before boundary, and locality.
2. Stream the edges into buckets on disk and sort them by the row they feed (entries.py).
3. One part at a time: find its halo, write its in-edges, their transpose, degrees and positions.
4. Tell every part which of its rows the others hold, and cut the node tables.

Peak memory is a few dozen bytes a node plus working space up to `memory`; no array as long as the edges is ever held. The
same graph and assignment give the same bytes, whatever the memory and the number of threads.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from starling.core.assignment import AssignmentManifest, Note, load_assignment
from starling.core.errors import InputError
from starling.core.manifest import GraphManifest, Table
from starling.core.memory import format_bytes
from starling.core.npy import NpyReader, save_array
from starling.core.progress import SILENT, Progress
from starling.store.parts_manifest import PartRecord, PartsManifest
from starling.store.shard_layout import (
    CLUSTER_TABLE,
    EDGE_TABLES,
    IN_DEGREE,
    LOOPED,
    NODE_TABLES,
    OUT_DEGREE,
    POSITION,
    shard_name,
)
from starling.store.sharding.budget import LEAST_WORKING_MEMORY, Budget
from starling.store.sharding.entries import sort_edges
from starling.store.sharding.in_edges import InEdgesWriter
from starling.store.sharding.inner_first import Crossings, order_inner_first
from starling.store.sharding.locality import streamed_locality
from starling.store.sharding.node_order import NodeOrder, order_nodes, sub_part_offsets
from starling.store.sharding.node_tables import NodeTableCutter
from starling.store.sharding.out_edges import write_out_edges
from starling.store.sharding.send_lists import send_list_bytes, write_halo, write_send_lists
from starling.store.sharding.survey import Survey, survey_edges
from starling.store.sharding.type_order import order_by_type, read_types
from starling.stream.edges import BLOCK_EDGES

if TYPE_CHECKING:
    from starling.store.graph import Graph

MOST_HALO_HOPS = 3
EDGE_PART, CLUSTERS = "edge_part.npy", "cluster.npy"
_BYTES_PER_NODE = 45
_BYTES_PER_EDGE_OF_A_BLOCK = 80  # read, relabelled, sorted and written, a few blocks at a time
PROGRAM_BYTES = 216 << 20
"""What the interpreter and compiled code hold, whatever the graph: the part of `--memory` that is not for data."""


@dataclass(frozen=True)
class ShardSettings:
    """How parts are built: hops of halo kept, sub-parts a part, and what the work may use."""

    halo_hops: int = 1
    sub_parts: int = 1
    memory: int = 1 << 30
    threads: int | None = None

    @property
    def budget(self) -> Budget:
        """The memory, as something that knows how much of it is left."""
        return Budget(self.memory)


def memory_for_shards(nodes: int, edges: int, parts: int, halo_hops: int) -> int:
    """The least `memory` that building so many shards keeps to; every shard tells each other one what it holds of it."""
    blocks = min(edges, BLOCK_EDGES) * _BYTES_PER_EDGE_OF_A_BLOCK + LEAST_WORKING_MEMORY
    return PROGRAM_BYTES + nodes * _BYTES_PER_NODE + send_list_bytes(parts, max(1, halo_hops)) + blocks


def build_parts(
    graph: Graph,
    assignment_directory: Path,
    staging: Path,
    *,
    halo_hops: int = 1,
    sub_parts: int = 1,
    memory: int = 1 << 30,
    threads: int | None = None,
    progress: Progress = SILENT,
    quality: dict[str, Note] | None = None,
) -> PartsManifest:
    """Write the parts of `graph` into the existing empty directory `staging` and seal it.

    `quality` is recorded as it is. Disk: the result, and up to 12 bytes an edge or once the widest node table besides.
    """
    settings = ShardSettings(halo_hops, sub_parts, memory, threads)
    assigned = AssignmentManifest.read(assignment_directory)
    _check(graph, assigned, settings)
    scratch = staging / "scratch"
    scratch.mkdir()
    survey, order, ranges = _number_nodes(graph, assignment_directory, settings, progress)
    order.save(staging)
    shards = [staging / shard_name(part) for part in range(assigned.parts)]
    entries = sort_edges(
        graph.edge_stream(),
        order,
        survey,
        scratch,
        edge_part=NpyReader(assignment_directory / EDGE_PART) if assigned.kind == "vertex-cut" else None,
        tables={name: NpyReader(graph.path / table.files[0]) for name, table in graph.manifest.edge_tables.items()},
        budget=settings.budget,
        threads=threads,
        progress=progress,
    )
    tables = _shard_tables(graph.manifest.edge_tables, EDGE_TABLES)
    writer = InEdgesWriter(order, survey, entries, assigned.kind, halo_hops, threads)
    records = []
    with progress.task("Building shards", len(shards), unit="parts") as task:
        for part, shard in enumerate(shards):
            records.append(_build_shard(part, shard, writer, order, ranges[part], survey, tables, scratch, settings))
            if halo_hops <= 1:  # with more hops, other parts read these rows too
                entries.remove(part)
            task.advance(1)
    looped = survey.looped is not None
    del survey, writer
    write_send_lists(shards, order.offsets, max(1, halo_hops), progress, memory=settings.budget.left())
    _cut_node_tables(graph, order, shards, scratch, settings, progress)
    clusters = _cut_clusters(graph, assigned, assignment_directory, order, shards)
    for name in graph.manifest.files:
        if name.startswith("ids."):
            shutil.copyfile(graph.path / name, staging / name)
    shutil.rmtree(scratch)
    manifest = _manifest(graph, assigned, settings, order, records, looped, quality or {})
    return manifest.model_copy(update={"node_tables": manifest.node_tables | clusters}).seal(staging)


def _check(graph: Graph, assigned: AssignmentManifest, settings: ShardSettings) -> None:
    whole = graph.manifest
    if (assigned.nodes, assigned.edges) != (whole.nodes, whole.edges):
        raise InputError(
            f"The assignment is for a graph of {assigned.nodes:,} nodes and {assigned.edges:,} edges, but {graph.path} has "
            f"{whole.nodes:,} and {whole.edges:,}. Partition this graph again."
        )
    if not 0 <= settings.halo_hops <= MOST_HALO_HOPS:
        raise InputError(f"Expected 0 to {MOST_HALO_HOPS} halo hops, got {settings.halo_hops}.")
    if assigned.kind == "vertex-cut" and settings.halo_hops != 1:
        raise InputError(
            f"A vertex-cut has no halo hops to choose (got {settings.halo_hops}): each edge is in one part, its ends masters "
            "or mirrors there. Leave out --halo-hops, or make it an edge-cut."
        )
    if assigned.kind == "vertex-cut" and EDGE_PART not in assigned.files:
        raise InputError(f"The assignment is a vertex-cut but has no {EDGE_PART}, the part of each edge. Partition again.")
    if settings.sub_parts < 1:
        raise InputError(f"Expected at least 1 sub-part in a part, got {settings.sub_parts}.")
    check_tables(whole)
    least = memory_for_shards(whole.nodes, whole.edges, assigned.parts, settings.halo_hops)
    if settings.memory < least:
        raise InputError(
            f"Building {assigned.parts:,} parts of {whole.nodes:,} nodes needs a budget of at least {format_bytes(least)}, got "
            f"{format_bytes(settings.memory)}. Pass a larger --memory."
        )


def check_tables(whole: GraphManifest) -> None:
    """Refuse a graph with tables that cannot be cut into parts."""
    sparse = [name for name, table in whole.edge_tables.items() if table.layout != "dense"]
    if sparse:
        raise InputError(
            f"Edge tables must be dense to be cut into parts; '{sparse[0]}' is sparse. Import it as a dense table."
        )


@dataclass(frozen=True)
class _Ranges:
    """Global ids at which a part's sub-parts [s + 1] and its ranges of one type [s · T + 1] begin and end; none without types."""

    sub_offsets: NDArray[np.int64]
    type_offsets: NDArray[np.int64]


def _number_nodes(
    graph: Graph, assignment_directory: Path, settings: ShardSettings, progress: Progress
) -> tuple[Survey, NodeOrder, list[_Ranges]]:
    # The assignment is not kept: its files are mapped, and their pages would count for as long as they are.
    assignment, assigned = load_assignment(assignment_directory)
    crossings = Crossings.between(assignment.owner) if assigned.kind == "edge-cut" else None
    survey = survey_edges(graph.edge_stream(), crossings=crossings, threads=settings.threads, progress=progress)
    locality: NDArray[Any] | None = assignment.locality
    if locality is None:
        locality = streamed_locality(graph.edge_stream(), assignment.owner, survey, progress=progress)
    elif int(locality.min(initial=0)) < 0:
        raise InputError(f"{assignment_directory} has a negative locality, which ranks nothing. Partition again.")
    order = order_nodes(assignment.owner, assignment.parts, locality)
    del assignment, locality
    # Sub-parts are cut from the order that keeps neighbours together; only then do crossings and types count.
    sub_offsets = [sub_part_offsets(order, part, settings.sub_parts, survey.in_degree) for part in range(order.parts)]
    if crossings is not None:
        order_inner_first(order, sub_offsets, crossings)
        del crossings
    type_offsets = [np.empty(0, np.int64)] * order.parts
    if graph.manifest.node_types:
        codes = read_types(graph.path, graph.manifest)
        type_offsets = order_by_type(order, sub_offsets, codes, len(graph.manifest.node_types))
    return survey, order, [_Ranges(subs, types) for subs, types in zip(sub_offsets, type_offsets, strict=True)]


def _build_shard(
    part: int,
    shard: Path,
    writer: InEdgesWriter,
    order: NodeOrder,
    ranges: _Ranges,
    survey: Survey,
    edge_tables: dict[str, Table],
    scratch: Path,
    settings: ShardSettings,
) -> PartRecord:
    """Write everything of one shard but its send lists and node tables."""
    shard.mkdir()
    found = writer.write(part, shard, {name: table.files[0] for name, table in edge_tables.items()})
    write_halo(shard, found.halo, order.offsets)
    positions = np.concatenate([order.positions(part), *(order.position_of_global[hop] for hop in found.halo)])
    save_array(shard / POSITION, positions)
    save_array(shard / IN_DEGREE, survey.in_degree[positions])
    save_array(shard / OUT_DEGREE, survey.out_degree[positions])
    if survey.looped is not None:
        save_array(shard / LOOPED, survey.looped[positions])
    columns = len(positions)
    del positions
    transposing = scratch / "transpose"
    write_out_edges(shard, found.offsets, columns, scratch=transposing, budget=settings.budget, threads=settings.threads)
    return PartRecord(
        nodes=len(order.positions(part)),
        halo=tuple(len(hop) for hop in found.halo),
        rows=len(found.offsets) - 1,
        edges=int(found.offsets[-1]),
        dropped=found.dropped,
        sub_offsets=tuple(ranges.sub_offsets.tolist()),
        type_offsets=tuple(ranges.type_offsets.tolist()),
        entry_offsets=tuple(found.offsets[ranges.type_offsets - order.offsets[part]].tolist()),
    )


def _cut_node_tables(
    graph: Graph, order: NodeOrder, shards: list[Path], scratch: Path, settings: ShardSettings, progress: Progress
) -> None:
    for shard in shards:
        (shard / NODE_TABLES).mkdir()
    cutter = NodeTableCutter(
        graph.path,
        graph.manifest,
        order,
        shards,
        scratch / "tables",
        budget=settings.budget,
        threads=settings.threads,
        progress=progress,
    )
    for name, table in _shard_tables(graph.manifest.node_tables, NODE_TABLES).items():
        cutter.cut(name, table.files)


def _cut_clusters(
    graph: Graph, assigned: AssignmentManifest, directory: Path, order: NodeOrder, shards: list[Path]
) -> dict[str, Table]:
    """Write the community of each owned node as a node table, where the method found any and the graph has no such table."""
    if CLUSTERS not in assigned.files or CLUSTER_TABLE in graph.manifest.node_tables:
        return {}
    reader, file = NpyReader(directory / CLUSTERS), f"{NODE_TABLES}/{CLUSTERS}"
    clusters = reader.read(0, reader.rows)
    for part, shard in enumerate(shards):
        save_array(shard / file, clusters[order.positions(part)])
    return {CLUSTER_TABLE: Table(layout="dense", dtype="int32", shape=clusters.shape, files=(file,))}


def _manifest(
    graph: Graph,
    assigned: AssignmentManifest,
    settings: ShardSettings,
    order: NodeOrder,
    records: list[PartRecord],
    looped: bool,
    quality: dict[str, Note],
) -> PartsManifest:
    whole = graph.manifest
    return PartsManifest(
        kind=assigned.kind,
        parts=assigned.parts,
        sub_parts=settings.sub_parts,
        halo_hops=settings.halo_hops,
        nodes=whole.nodes,
        edges=whole.edges,
        directed=whole.directed,
        looped=looped,
        offsets=tuple(order.offsets.tolist()),
        shards=tuple(records),
        method=assigned.method,
        seed=assigned.seed,
        settings=assigned.settings,
        notes=assigned.notes,
        making=assigned.making,
        passes=assigned.passes,
        quality=quality,
        input=whole.files["edges.npy"].sha256,
        ids=whole.ids,
        node_types=whole.node_types,
        edge_types=whole.edge_types,
        node_tables=_shard_tables(whole.node_tables, NODE_TABLES),
        edge_tables=_shard_tables(whole.edge_tables, EDGE_TABLES),
        labels=whole.labels,
        splits=whole.splits,
    )


def _shard_tables(tables: dict[str, Table], folder: str) -> dict[str, Table]:
    """The same tables with the names their files have in a shard."""
    return {
        name: table.model_copy(update={"files": tuple(f"{folder}/{file}" for file in table.files)})
        for name, table in tables.items()
    }
