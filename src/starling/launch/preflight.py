"""What can be known to go wrong before any process is started."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from starling.core.errors import InputError
from starling.core.manifest import GraphManifest
from starling.store.parts_manifest import PartsManifest

_EDGES = "edges.npy"


def check_parts(
    path: Path,
    manifest: PartsManifest,
    *,
    workers: int,
    shared: bool = False,
    graph: GraphManifest | None = None,
    parts: Iterable[int] | None = None,
) -> None:
    """Refuse a parts directory that `workers` workers cannot share, or that was made of another graph than `graph`.

    `parts` are those whose shards this machine must have, by default all; a machine of several need only have its own. Costs one
    look at each of their files. `shared`: several workers may read one part.
    """
    if workers > manifest.parts and not shared:
        one = manifest.parts == 1
        raise InputError(
            f"Expected at most as many workers as parts, got {workers} workers for {manifest.parts} part{'' if one else 's'} in "
            f"{path}. Pass --workers {manifest.parts}, or partition into more: starling partition GRAPH -p {workers}."
        )
    if graph is not None and graph.files[_EDGES].sha256 != manifest.input:
        raise InputError(
            f"{path} holds parts of another graph ({manifest.nodes:,} nodes and {manifest.edges:,} edges; the graph given has "
            f"{graph.nodes:,} and {graph.edges:,}). Partition the graph again."
        )
    manifest.check_shards(path, range(manifest.parts) if parts is None else parts)
