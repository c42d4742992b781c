"""Partitions made by other tools, as assignments: METIS ``.part`` files, DGL folders, Starling's own assignment directories."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from starling.core.artifact import MANIFEST
from starling.core.assignment import Assignment, load_assignment
from starling.core.errors import InputError
from starling.core.manifest import read_json
from starling.core.npy import NpyReader
from starling.store.export import ExportManifest
from starling.store.foreign.dgl_layout import NodeTypes, read_dgl_partition
from starling.store.foreign.export_parts import DGL_FOLDER, METIS_FILE
from starling.store.foreign.metis_file import read_metis_part

_BLOCK = 1 << 20


def read_foreign_assignment(path: Path, nodes: int, edges: int, types: NodeTypes | None = None) -> Assignment:
    """The assignment at `path` of a graph of this size, whatever wrote it.

    A file is METIS's, a directory Starling's (assignment or export) or DGL's.
    """
    if not path.exists():
        raise InputError(f"There is no partition at {path}. Give a METIS .part file, a DGL folder or an assignment directory.")
    if path.is_file():
        return read_metis_part(path, nodes)
    if not (path / MANIFEST).is_file():
        return read_dgl_partition(path, nodes, types)
    if read_json(path).get("format") == "starling-export":
        return read_foreign_assignment(_exported(path), nodes, edges, types)
    return _own_assignment(path, nodes, edges)


def _own_assignment(directory: Path, nodes: int, edges: int) -> Assignment:
    """An assignment directory of Starling's, refused where it is another graph's or not what its manifest says."""
    assignment, manifest = load_assignment(directory)
    if (manifest.nodes, manifest.edges) != (nodes, edges):
        raise InputError(
            f"Expected an assignment of {nodes:,} nodes and {edges:,} edges, got one of {manifest.nodes:,} and "
            f"{manifest.edges:,} in {directory}. Give the assignment of this graph, or partition it with --method."
        )
    fault = _fault_of_edge_parts(directory, assignment, edges)
    if fault:
        raise InputError(f"{directory} is a {assignment.kind} that {fault}. Give another assignment, or partition again.")
    return assignment


def _fault_of_edge_parts(directory: Path, assignment: Assignment, edges: int) -> str | None:
    """What is wrong with the parts of the edges; read in blocks, since mapped pages would count as memory held."""
    placed = assignment.edge_part
    if assignment.kind == "edge-cut":
        return "places edges" if placed is not None else None
    if placed is None or placed.shape != (edges,) or placed.dtype != np.uint16:
        return f"has no part, as uint16, for each of {edges:,} edges"
    if any(int(block.max()) >= assignment.parts for block in NpyReader(directory / "edge_part.npy").blocks(_BLOCK)):
        return f"places edges outside its {assignment.parts:,} parts"
    return None


def _exported(directory: Path) -> Path:
    """The partition in a directory that ``starling export`` wrote."""
    form = ExportManifest.read(directory).form
    if form == "dgl":
        return directory / DGL_FOLDER
    if form != "metis":
        raise InputError(
            f"{directory} is a graph exported as {form}, which says nothing of parts. Give a METIS .part file, a DGL folder, or "
            "what starling export wrote of a parts directory."
        )
    return next(directory.glob(METIS_FILE.format("*")))
