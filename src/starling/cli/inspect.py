"""``starling inspect``: what a directory holds, and whether it is intact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from starling.cli.flags import Json
from starling.cli.graph_facts import graph_summary, print_graph
from starling.cli.output import print_json
from starling.cli.parts_facts import parts_summary, print_parts
from starling.core.errors import InputError
from starling.core.manifest import read_json
from starling.store.graph import open_graph
from starling.store.parts import open_parts


def inspect(
    path: Annotated[Path, typer.Argument(help="A directory made by Starling: a graph or parts.", show_default=False)],
    verify: Annotated[bool, typer.Option("--verify", help="Read every file and compare its checksum.")] = False,
    json: Json = False,
) -> None:
    """Show what a directory holds; with --verify, check that it is intact."""
    form = read_json(path).get("format")
    if form == "starling-graph":
        graph = open_graph(path)
        if verify:
            graph.manifest.verify(path)
        print_json(graph_summary(graph) | {"verified": verify}) if json else print_graph(graph)
    elif form == "starling-parts":
        parts = open_parts(path)
        if verify:
            parts.manifest.verify(path)
        print_json(parts_summary(parts) | {"verified": verify}) if json else print_parts(parts)
    else:
        raise InputError(f"Expected a graph or parts directory, got {form!r} in {path}.")
    if verify and not json:
        print("All checksums match.")
