"""Import: whatever can be read becomes the files of a graph directory, without ever being held whole.

1. The input is read once and set down on disk, ids as the user has them (`edge_spool`, `tables.spool`).
2. Ids become positions: as they are, or numbered in the order of first appearance (`ids.positions`, `ids.numbering`).
3. Edges are checked, and repeats, self-loops and missing reverses dealt with (`cleaning`).
4. Node tables are put in the order of the nodes (`tables.node_tables`), and relations are checked against node types
   (`relation_ends`).
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from starling.core.errors import InputError
from starling.core.manifest import GraphManifest, Record, Table
from starling.core.npy import NpyReader
from starling.core.progress import SILENT, Progress
from starling.stream.cleaning import EdgeFiles, Findings, clean_edges
from starling.stream.edge_counter import Rules
from starling.stream.edge_spool import SpooledEdges, spool_edges
from starling.stream.ids.positions import Positions, Spooled, find_positions
from starling.stream.inverse import add_inverses, inverse_names
from starling.stream.raw import RawGraph
from starling.stream.relation_ends import check_relation_ends
from starling.stream.room import Room
from starling.stream.tables.categories import TypeColumn
from starling.stream.tables.node_tables import NodeTables, NodeTableWriter, check_roles
from starling.stream.tables.splits import Shares
from starling.stream.tables.spool import SpooledTable, spool_table

EDGES = "edges.npy"


def _percentages(split: tuple[float, float, float] | None) -> tuple[float, float, float] | None:
    if split is not None and (min(split) < 0 or not 0 < sum(split) <= 100):
        raise ValueError(f"expected percentages of train, val and test that make at most 100, got {split}")
    return split


class ImportOptions(Record):
    """How to import a graph."""

    direction: Literal["as-is", "directed", "undirected"] = "as-is"
    """Add missing reverses (undirected), keep the edges and call them directed, or as the input says of itself; where it
    says nothing, keep the edges and find out whether they are symmetric."""
    self_loops: Literal["keep", "drop"] = "keep"
    duplicates: Literal["keep", "drop"] = "keep"
    ids: Literal["auto", "position", "relabel"] = "auto"
    """Whether integer ids are node positions; `auto` takes them so unless they are absurdly large for the edges."""
    classes: Annotated[int, Field(ge=1)] | None = None
    inverse: bool = False
    """Add the reverse of every edge as an edge of another type: each relation gets an inverse."""
    split: Annotated[tuple[float, float, float] | None, AfterValidator(_percentages)] = None
    """Percentages of train, val and test to draw at random, keyed by `seed`."""
    seed: int = 0
    memory: Annotated[int, Field(gt=0)] = 1 << 30
    """Bytes of resident memory for the whole process."""


def ingest(raw: RawGraph, options: ImportOptions, staging: Path, progress: Progress = SILENT) -> GraphManifest:
    """Write the files of a graph into `staging`, an existing directory; returns the manifest, to be sealed by the caller."""
    check_roles(raw.tables)
    room = Room.within(options.memory)
    scratch = staging / "scratch"
    scratch.mkdir()
    try:
        came = _read(raw, options, scratch, progress)
        positions = find_positions(came, options.ids, staging, room, scratch, progress)
        if not positions.nodes:
            raise InputError("The graph is empty: no edges and no nodes came in. Check the input, or pass --num-nodes.")
        files = _edge_files(came.edges, positions, staging)
        _check_inverse(raw, options, came.edges)
        findings = clean_edges(*files, positions.nodes, _rules(raw, options), room, scratch / "cleaning", progress)
        if options.inverse:
            findings = _with_inverses(findings, files[1], came.edges)
        writer = NodeTableWriter(positions, staging, room, scratch)
        tables = writer.write(came.tables)
        if options.classes is not None and tables.labels is None:
            raise InputError("A number of classes is given, but no labels. Give labels or leave out --classes.")
        if options.split is not None:
            tables = writer.draw_split(Shares(*options.split), options.seed)
        relations = inverse_names(came.edges.type_names) if options.inverse else came.edges.type_names
        if tables.node_types and relations:
            types = staging / tables.tables["type"].files[0]
            check_relation_ends(relations, tables.node_types, files[1], types, both_ways=_undirected(raw, options))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return _manifest(raw, options, relations, positions, findings, tables, files[1])


def _read(raw: RawGraph, options: ImportOptions, scratch: Path, progress: Progress) -> Spooled:
    edges = spool_edges(raw.edges, raw.edge_types, scratch / "edges", progress)
    tables: list[SpooledTable] = []
    for number, reader in enumerate(raw.tables):
        tables.append(spool_table(reader, raw, options.classes, scratch / f"table-{number}", progress))
    return Spooled(edges, tables, raw.nodes)


def _undirected(raw: RawGraph, options: ImportOptions) -> bool:
    return options.direction == "undirected" or (options.direction == "as-is" and raw.directed is False)


def _rules(raw: RawGraph, options: ImportOptions) -> Rules:
    return Rules(
        drop_loops=options.self_loops == "drop",
        drop_repeats=options.duplicates == "drop",
        add_reverses=_undirected(raw, options),
    )


def _check_inverse(raw: RawGraph, options: ImportOptions, edges: SpooledEdges) -> None:
    if not options.inverse:
        return
    if "type" not in edges.columns:
        raise InputError("Inverse relations need a type for every edge, and the edges have none. Leave out --inverse.")
    if _undirected(raw, options):
        raise InputError(
            "Edges that go both ways have no inverse: their reverses are of the same type. Leave out --inverse, or import them as "
            "--directed."
        )


def _with_inverses(findings: Findings, files: EdgeFiles, edges: SpooledEdges) -> Findings:
    add_inverses(files, _type_count(edges))
    counts = findings.counts.model_copy(update={"reverses_added": findings.edges})
    return replace(findings, counts=counts, edges=2 * findings.edges, symmetric=True)


def _type_count(edges: SpooledEdges) -> int:
    types = edges.columns["type"]
    assert isinstance(types, TypeColumn)
    return len(types.counts)


def _edge_files(edges: SpooledEdges, positions: Positions, staging: Path) -> tuple[EdgeFiles, EdgeFiles]:
    """The edge files as they came, and what they will be."""
    came = EdgeFiles(positions.pairs, {role: column.path for role, column in edges.columns.items()})
    return came, EdgeFiles(staging / EDGES, {role: staging / f"{role}.edge.npy" for role in came.tables})


def _manifest(
    raw: RawGraph,
    options: ImportOptions,
    relations: tuple[str, ...],
    positions: Positions,
    findings: Findings,
    tables: NodeTables,
    files: EdgeFiles,
) -> GraphManifest:
    directed = not (_undirected(raw, options) or (options.direction == "as-is" and findings.symmetric))
    return GraphManifest(
        nodes=positions.nodes,
        edges=findings.edges,
        directed=directed,
        ids=positions.kind,
        node_types=tables.node_types,
        edge_types=relations,
        node_tables=tables.tables,
        edge_tables={role: _edge_table(path) for role, path in files.tables.items()},
        labels=tables.labels,
        splits=tables.splits,
        isolated=findings.isolated,
        counts=findings.counts,
        origin=raw.origin,
    )


def _edge_table(path: Path) -> Table:
    reader = NpyReader(path)
    return Table(layout="dense", dtype=reader.dtype.name, shape=reader.shape, files=(path.name,))
