"""``starling export``: a graph back into files other tools read, under the user's own ids."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from starling.cli.flags import Force, Json, Output, Quiet
from starling.cli.output import memory_line, print_facts, print_json
from starling.cli.progress import progress
from starling.core.memory import peak_rss_bytes
from starling.store.graph import open_graph


def export(
    graph: Annotated[Path, typer.Argument(help="A graph directory.", show_default=False)],
    output: Output,
    format: Annotated[Literal["csv", "parquet", "npz"], typer.Option(help="Form of the files.")] = "parquet",
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a graph's edges and node tables as CSV, Parquet or one .npz."""
    from starling.store.export import export_graph

    began = time.monotonic()
    opened = open_graph(graph)
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
