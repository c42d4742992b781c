"""What there is to say about a parts directory, for `inspect`."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from starling.cli.graph_facts import feature_width
from starling.cli.output import print_facts
from starling.core.memory import format_bytes
from starling.store.parts import Parts


def parts_summary(parts: Parts) -> dict[str, Any]:
    """The facts of a parts directory under the keys that scripts rely on."""
    manifest = parts.manifest
    return {
        "kind": "parts",
        "path": str(parts.path),
        "nodes": manifest.nodes,
        "edges": manifest.edges,
        "directed": manifest.directed,
        "features": feature_width(manifest),
        "classes": manifest.labels.classes if manifest.labels else 0,
        "splits": manifest.splits,
        "parts": manifest.parts,
        "sub_parts": manifest.sub_parts,
        "halo_hops": manifest.halo_hops,
        "cut": manifest.kind,
        "method": manifest.method,
        "seed": manifest.seed,
        **manifest.quality,
        "shards": [shard.model_dump() for shard in manifest.shards],
        "bytes": sum(entry.bytes for entry in manifest.files.values()),
    }


def print_parts(parts: Parts) -> None:
    """Tell a person what a parts directory holds."""
    manifest = parts.manifest
    print_facts(
        f"Parts {parts.path}",
        [
            ("nodes", manifest.nodes),
            ("edges", manifest.edges),
            ("parts", manifest.parts if manifest.sub_parts == 1 else f"{manifest.parts} × {manifest.sub_parts} sub-parts"),
            ("cut", f"{manifest.kind} by {manifest.method}, seed {manifest.seed}"),
            ("halo hops", manifest.halo_hops if manifest.kind == "edge-cut" else None),
            *((name.replace("_", " "), value) for name, value in manifest.quality.items()),
            ("on disk", format_bytes(sum(entry.bytes for entry in manifest.files.values()))),
        ],
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("part", "nodes", "mirrors" if manifest.kind == "vertex-cut" else "halo", "edges"):
        table.add_column(heading, justify="right")
    for number, shard in enumerate(manifest.shards):
        table.add_row(f"{number}", f"{shard.nodes:,}", f"{sum(shard.halo):,}", f"{shard.edges:,}")
    Console(highlight=False).print(table)
