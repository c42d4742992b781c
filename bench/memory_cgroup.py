"""Run a command in a memory cgroup of its own: what it may hold, page cache included, is bounded by the kernel.

Needs the right to make a cgroup (root, or a delegated one). Version 1 and 2 are both known.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class MemoryGroup:
    """A cgroup and the names its files have."""

    path: Path
    limit: str
    usage: str
    peak: str
    refused: str

    def read(self, name: str) -> int | None:
        """A number the kernel keeps of the group; None where this kernel does not."""
        file = self.path / name
        return int(file.read_text().split()[0]) if file.is_file() else None


@contextmanager
def memory_group(limit: int | None) -> Iterator[MemoryGroup]:
    """A new group with at most `limit` bytes of memory and page cache together, or without limit; it is gone afterwards."""
    name = f"starling-bench-{os.getpid()}"
    unified = "memory" in (ROOT / "cgroup.controllers").read_text() if (ROOT / "cgroup.controllers").is_file() else False
    if unified:
        group = MemoryGroup(ROOT / name, "memory.max", "memory.current", "memory.peak", "memory.events")
    else:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.failcnt")
        group = MemoryGroup(ROOT / "memory" / name, *names)
    group.path.mkdir()
    try:
        if limit is not None:
            (group.path / group.limit).write_text(str(limit))
        yield group
    finally:
        with suppress(OSError):
            group.path.rmdir()


def run_in(group: MemoryGroup, command: Sequence[str], **settings: object) -> subprocess.CompletedProcess[str]:
    """Run a command whose memory is the group's from its first page on."""
    join = f'echo $$ > {group.path / "cgroup.procs"} && exec "$@"'
    return subprocess.run(["sh", "-c", join, "sh", *command], capture_output=True, text=True, check=False, **settings)  # type: ignore[call-overload,no-any-return]


def forget(folder: Path) -> None:
    """Drop a directory's files from the page cache, so that nobody reads pages that another group has paid for."""
    for path in (path for path in folder.rglob("*") if path.is_file()):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
