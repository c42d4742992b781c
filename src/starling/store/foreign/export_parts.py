"""Parts written as other tools keep their partitions, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from starling.core.artifact import staged
from starling.store.export import ExportManifest
from starling.store.foreign.dgl_layout import write_dgl_partition
from starling.store.foreign.metis_file import write_metis_part
from starling.store.parts import Parts

PartsForm = Literal["metis", "dgl"]
METIS_FILE, DGL_FOLDER = "graph.part.{}", "graph"


def export_parts(parts: Parts, output: Path, form: PartsForm, *, force: bool = False) -> list[Path]:
    """A directory with ``graph.part.P`` (METIS: the part of each node, a line each) or with DGL's partition folder ``graph``."""
    with staged(output, force=force) as staging:
        if form == "metis":
            write_metis_part(parts, staging / METIS_FILE.format(len(parts)))
        else:
            write_dgl_partition(parts, staging / DGL_FOLDER)
        counts = parts.manifest
        ExportManifest(form=form, nodes=counts.nodes, edges=counts.edges, directed=counts.directed).seal(staging)
    return sorted(path for path in output.iterdir() if path.name != "manifest.json")
