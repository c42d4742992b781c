"""What can be known to go wrong with parts before any worker reads them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from starling.core.environment import core_count
from starling.core.errors import InputError
from starling.store.parts_manifest import PartsManifest

_WORKERS_A_CORE = 64
"""More would need gigabytes for their interpreters alone, and get nowhere."""


def check_team_size(workers: int, nodes: int, path: Path) -> None:
    """Refuse more workers on this machine than the graph has nodes, or than it can run at all."""
    if workers > nodes:
        held = "1 node" if nodes == 1 else f"{nodes:,} nodes"
        raise InputError(
            f"Expected at most as many workers as nodes, got {workers} workers for {held} in {path}. Pass fewer --workers."
        )
    most = _WORKERS_A_CORE * core_count()
    if workers > most:
        raise InputError(
            f"Expected at most {most} workers on {core_count()} cores ({_WORKERS_A_CORE} a core), got {workers}. Pass fewer "
            "--workers, or start them on several machines (docs/launching.md)."
        )


def check_parts(
    path: Path,
    manifest: PartsManifest,
    *,
    workers: int,
    shared: bool = False,
    parts: Iterable[int] | None = None,
) -> None:
    """Refuse a parts directory that `workers` workers cannot share.

    `parts` are those whose shards this machine must have, by default all; a machine of several need only have its own. Costs one
    look at each of their files. `shared`: several workers may read one part.
    """
    if workers > manifest.parts and not shared:
        one = manifest.parts == 1
        raise InputError(
            f"Expected at most as many workers as parts, got {workers} workers for {manifest.parts} part{'' if one else 's'} in "
            f"{path}. Pass --workers {manifest.parts}, or partition into more: starling partition GRAPH -p {workers}."
        )
    manifest.check_shards(path, range(manifest.parts) if parts is None else parts)
