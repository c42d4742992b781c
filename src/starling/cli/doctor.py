"""``starling doctor``: what this machine and this installation can do."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
from pathlib import Path

import psutil

from starling import __version__
from starling.cli.flags import Json
from starling.cli.output import print_facts, print_json
from starling.core.environment import thread_count
from starling.core.memory import format_bytes

_CORE = ("torch", "numpy", "numba", "pyarrow", "pydantic", "typer", "rich", "pymetis", "igraph", "torchmetrics", "psutil")
_EXTRAS = {
    "torch-geometric": "pyg",
    "networkx": "networkx",
    "scipy": "scipy",
    "kaminpar": "partitioners",
    "mtkahypar": "partitioners",
    "ray": "ray",
    "plotly": "report",
    "tensorboard": "tensorboard",
}


def doctor(json: Json = False) -> None:
    """Show versions, cores, memory and which optional packages were found."""
    core = {package: _version(package) for package in _CORE}
    extras = {package: _version(package) for package in _EXTRAS}
    memory, disk = psutil.virtual_memory(), shutil.disk_usage(Path.cwd())
    result = {
        "starling": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": thread_count(),
        "memory_bytes": memory.total,
        "memory_available_bytes": memory.available,
        "disk_free_bytes": disk.free,
        "packages": core,
        "extras": extras,
    }
    if json:
        print_json(result)
        return
    print_facts(
        f"Starling {__version__}",
        [
            ("python", f"{platform.python_version()} on {platform.platform()}"),
            ("threads", thread_count()),
            ("memory", f"{format_bytes(memory.available)} free of {format_bytes(memory.total)}"),
            ("disk here", f"{format_bytes(disk.free)} free"),
            *((package, version or "missing: pip install starling-gnn again") for package, version in core.items()),
            *((package, version or f"not installed (extra [{_EXTRAS[package]}])") for package, version in extras.items()),
        ],
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
