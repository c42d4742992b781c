"""A graph back into files that other tools, and `starling import`, read: under the user's own ids, a block at a time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from starling.core.artifact import MANIFEST, staged
from starling.core.manifest import Count, Manifest
from starling.core.progress import SILENT, Progress
from starling.store.export_npz import MANY_SPLITS, NODE_KEYS, write_npz, write_sparse
from starling.store.export_tables import edge_table, node_table, write_csv, write_parquet
from starling.store.graph import Graph

ExportFormat = Literal["csv", "parquet", "npz"]

_COLUMNS: tuple[str, ...] = ("type", "time", "y", "train", "val", "test", "x")


class ExportManifest(Manifest):
    """A directory of exported files."""

    format: Literal["starling-export"] = "starling-export"
    version: int = 1
    form: str
    nodes: Count
    edges: Count
    directed: bool


def export_graph(
    graph: Graph, output: Path | str, form: ExportFormat, *, force: bool = False, progress: Progress = SILENT
) -> list[Path]:
    """Write a graph to the directory `output`, whole or not at all; gives the files written, the manifest apart.

    `csv` and `parquet` give ``edges`` and ``nodes`` (in node order, so that importing both restores every position), and beside
    them sparse features as ``features.npz`` and, of CSV, several labels a node as ``labels.csv``. `npz` gives ``graph.npz``.
    Tables to which no format gives a meaning are copied as they are, to ``NAME.npy`` or ``NAME.npz``. Read back, everything is
    as it was, but that CSV and Parquet number types and classes anew, in the order of their names.
    """
    output = Path(output)
    with staged(output, force=force) as staging:
        if form == "npz":
            write_npz(graph, staging / "graph.npz", progress)
        else:
            _write_tables(graph, staging, form, progress)
        _copy_others(graph, staging, known=(*NODE_KEYS, *(MANY_SPLITS if form == "npz" else ())))
        manifest = graph.manifest
        sealed = ExportManifest(form=form, nodes=manifest.nodes, edges=manifest.edges, directed=manifest.directed).seal(staging)
    return [output / name for name in sealed.files if name != MANIFEST]


def _write_tables(graph: Graph, directory: Path, form: Literal["csv", "parquet"], progress: Progress) -> None:
    write = write_csv if form == "csv" else write_parquet
    write(edge_table(graph), directory, progress)
    tables = graph.manifest.node_tables
    columns = _COLUMNS
    if form == "csv" and "y" in tables and len(tables["y"].shape) == 2:
        columns = tuple(name for name in _COLUMNS if name != "y")
        write(node_table(graph, "labels", ("y",)), directory, progress)
    write(node_table(graph, "nodes", columns), directory, progress)
    if "x" in tables and tables["x"].layout == "csr":
        write_sparse(graph, tables["x"], directory / "features.npz")


def _copy_others(graph: Graph, directory: Path, known: tuple[str, ...]) -> None:
    for name, table in graph.manifest.node_tables.items():
        if name in known:
            continue
        file = table.files[0]
        if table.layout == "csr":
            write_sparse(graph, table, directory / f"{file.removesuffix('.indptr.npy')}.npz")
        else:
            shutil.copyfile(graph.path / file, directory / file)
