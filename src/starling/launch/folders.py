"""Directories that a run owns: locked while it lives, removed when it ends, swept by a later run if it was killed.

The lock is the operating system's (flock on the directory itself), so it ends with its process, however that ends; unlike a process
number it cannot be mistaken for another's, nor for one of a different container.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "starling-run-"


@contextmanager
def own_folder(root: Path) -> Iterator[Path]:
    """A new empty directory in `root`, readable by this user alone; it is gone when the block is left."""
    sweep(root)
    folder, lock = _claim(root)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(root: Path) -> None:
    """Remove the directories of runs that were killed."""
    for folder in root.glob(f"{_PREFIX}*"):
        lock = _lock(folder)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _claim(root: Path) -> tuple[Path, int]:
    while True:  # another run's sweep may come between making and locking; then there is no folder, and the next try gets one
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        lock = _lock(folder)
        if lock is None:
            continue
        if folder.exists():
            return folder, lock
        os.close(lock)


def _lock(folder: Path) -> int | None:
    """A lock that lasts as long as this file number is open; None if somebody has it, or the folder is not ours or gone."""
    try:
        file = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file
