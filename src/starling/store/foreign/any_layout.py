"""Partitions made by other tools, as assignments: METIS ``.part`` files, DGL folders, Starling's own assignment directories."""

from __future__ import annotations

from pathlib import Path

from starling.core.artifact import MANIFEST
from starling.core.assignment import Assignment, load_assignment
from starling.core.errors import InputError
from starling.core.manifest import read_json
from starling.store.export import ExportManifest
from starling.store.foreign.dgl_layout import NodeTypes, read_dgl_partition
from starling.store.foreign.export_parts import DGL_FOLDER, METIS_FILE
from starling.store.foreign.metis_file import read_metis_part


def read_foreign_assignment(path: Path, nodes: int, types: NodeTypes | None = None) -> Assignment:
    """The assignment at `path`, whatever wrote it: a file is METIS's, a directory Starling's (assignment or export) or DGL's."""
    if not path.exists():
        raise InputError(f"There is no partition at {path}. Give a METIS .part file, a DGL folder or an assignment directory.")
    if path.is_file():
        return read_metis_part(path, nodes)
    if not (path / MANIFEST).is_file():
        return read_dgl_partition(path, nodes, types)
    if read_json(path).get("format") == "starling-export":
        return read_foreign_assignment(_exported(path), nodes, types)
    return load_assignment(path)[0]


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
