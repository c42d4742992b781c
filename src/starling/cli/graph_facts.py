"""What there is to say about a graph directory, for `import`, `generate` and `inspect`."""

from __future__ import annotations

from typing import Any

from starling.cli.output import memory_line, print_facts
from starling.core.manifest import GraphManifest
from starling.core.memory import format_bytes, peak_rss_bytes
from starling.store.graph import Graph
from starling.store.parts_manifest import PartsManifest


def graph_summary(graph: Graph) -> dict[str, Any]:
    """The facts of a graph under the keys that scripts rely on."""
    manifest = graph.manifest
    return {
        "kind": "graph",
        "path": str(graph.path),
        "nodes": manifest.nodes,
        "edges": manifest.edges,
        "directed": manifest.directed,
        "features": feature_width(manifest),
        "classes": manifest.labels.classes if manifest.labels else 0,
        "task": manifest.labels.kind if manifest.labels else None,
        "labelled": manifest.labels.labelled if manifest.labels else 0,
        "splits": manifest.splits,
        "isolated": manifest.isolated,
        "self_loops": manifest.counts.self_loops - manifest.counts.self_loops_dropped,
        "ids": manifest.ids,
        "node_types": list(manifest.node_types),
        "edge_types": list(manifest.edge_types),
        "node_tables": {name: list(table.shape) for name, table in manifest.node_tables.items()},
        "edge_tables": {name: list(table.shape) for name, table in manifest.edge_tables.items()},
        "bytes": sum(entry.bytes for entry in manifest.files.values()),
    }


def feature_width(manifest: GraphManifest | PartsManifest) -> int:
    """Features per node; 0 where there are none. With a table per node type, the widest."""
    widths = [table.shape[1] for name, table in manifest.node_tables.items() if name == "x" or name.startswith("x@")]
    return max(widths, default=0)


def import_result(graph: Graph, seconds: float) -> dict[str, Any]:
    """What `import` and `generate` report: the graph, what happened to its edges, time and memory."""
    counts = graph.manifest.counts
    return {
        **graph_summary(graph),
        "edges_read": counts.read,
        "duplicates": counts.duplicates,
        "self_loops_dropped": counts.self_loops_dropped,
        "duplicates_dropped": counts.duplicates_dropped,
        "reverses_added": counts.reverses_added,
        "seconds": round(seconds, 3),
        "edges_per_second": round(counts.read / seconds) if seconds > 0 else 0,
        "peak_rss_bytes": peak_rss_bytes(),
    }


def print_import(graph: Graph, result: dict[str, Any]) -> None:
    """Tell a person what was imported, and what they may want to do about it."""
    counts = graph.manifest.counts
    hint = None
    if graph.manifest.directed and counts.reverses_added == 0:
        flag = "--inverse" if "type" in graph.manifest.edge_tables else "--undirected"  # a reverse is of another relation
        hint = f"edges have no reverse; add {flag} if they go both ways"
    print_facts(
        f"Wrote {graph.path}",
        [
            *_graph_lines(graph),
            ("edges read", counts.read),
            ("reverses added", counts.reverses_added or None),
            ("self-loops", _kept_or_dropped(counts.self_loops, counts.self_loops_dropped)),
            ("duplicates", _kept_or_dropped(counts.duplicates, counts.duplicates_dropped)),
            ("note", hint),
            ("time", f"{result['seconds']:.1f} s, {result['edges_per_second']:,} edges/s"),
            memory_line(result["peak_rss_bytes"]),
        ],
    )


def print_graph(graph: Graph) -> None:
    """Tell a person what a graph directory holds."""
    print_facts(f"Graph {graph.path}", _graph_lines(graph))


def _graph_lines(graph: Graph) -> list[tuple[str, object]]:
    manifest = graph.manifest
    labels = manifest.labels
    described = None
    if labels:
        described = {
            "single": f"{labels.classes} classes",
            "multi": f"{labels.classes} labels, several a node",
            "real": "numbers",
        }[labels.kind] + f", {labels.labelled:,} nodes labelled"
    return [
        ("nodes", manifest.nodes),
        ("edges", f"{manifest.edges:,} {'directed' if manifest.directed else 'in both directions'}"),
        ("isolated nodes", manifest.isolated or None),
        ("features", feature_width(manifest) or "none"),
        ("labels", described or "none"),
        ("splits", ", ".join(f"{name} {count:,}" for name, count in manifest.splits.items()) or "none"),
        ("node types", ", ".join(manifest.node_types) or None),
        ("edge types", f"{len(manifest.edge_types)}" if manifest.edge_types else None),
        ("node ids", {"position": "row numbers", "integer": "whole numbers", "string": "text"}[manifest.ids]),
        ("on disk", format_bytes(sum(entry.bytes for entry in manifest.files.values()))),
    ]


def _kept_or_dropped(found: int | None, dropped: int) -> str | None:
    if not found:
        return None
    return f"{found:,} {'dropped' if dropped else 'kept'}"
