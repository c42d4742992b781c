"""``starling export``: a graph, or its parts, in files that other tools read."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from starling.cli.flags import Force, Json, Output, Quiet
from starling.cli.output import memory_line, print_facts, print_json
from starling.cli.progress import progress
from starling.core.artifact import refuse_own_input
from starling.core.memory import peak_rss_bytes
from starling.store.graph import Graph, open_graph
from starling.store.parts import Parts, open_parts


def export(
    path: Annotated[Path, typer.Argument(help="A graph directory, or parts.", show_default=False)],
    output: Output,
    format: Annotated[
        Literal["csv", "parquet", "npz", "metis", "dgl"],
        typer.Option(help="Form of the files: csv, parquet or npz for a graph, metis (.part file) or dgl (folder) for parts."),
    ] = "parquet",
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a graph's edges and node tables, under the user's ids, or the assignment of its parts."""
    from starling.store.export import export_graph
    from starling.store.foreign.export_parts import export_parts

    began = time.monotonic()
    refuse_own_input(output, path, what="export")
    opened: Graph | Parts
    if format == "metis" or format == "dgl":  # mypy narrows these, not membership
        opened = open_parts(path)
        files = export_parts(opened, output, format, force=force)
    else:
        opened = open_graph(path)
        files = export_graph(opened, output, format, force=force, progress=progress(quiet=quiet or json))
    result = {
        "output": str(output),
        "format": format,
        "files": [str(file) for file in files],
        "nodes": opened.manifest.nodes,
        "edges": opened.manifest.edges,
        "seconds": round(time.monotonic() - began, 3),
        "peak_rss_bytes": peak_rss_bytes(),
    }
    if json:
        print_json(result)
    else:
        facts: list[tuple[str, object]] = [("files", ", ".join(file.name for file in files)), ("edges", opened.manifest.edges)]
        print_facts(f"Wrote {output}", [*facts, ("time", f"{result['seconds']} s"), memory_line(peak_rss_bytes())])
