"""Partitions made by other tools, as assignments: METIS ``.part`` files, DGL folders, Starling's own assignment directories."""

from __future__ import annotations

from pathlib import Path

from starling.core.artifact import MANIFEST
from starling.core.assignment import Assignment, load_assignment
from starling.core.errors import InputError
from starling.store.foreign.dgl_layout import NodeTypes, read_dgl_partition
from starling.store.foreign.metis_file import read_metis_part


def read_foreign_assignment(path: Path, nodes: int, types: NodeTypes | None = None) -> Assignment:
    """The assignment at `path`, whatever wrote it: a file is METIS's, a directory is Starling's or DGL's."""
    if not path.exists():
        raise InputError(f"There is no partition at {path}. Give a METIS .part file, a DGL folder or an assignment directory.")
    if path.is_file():
        return read_metis_part(path, nodes)
    if (path / MANIFEST).is_file():
        return load_assignment(path)[0]
    return read_dgl_partition(path, nodes, types)
