"""Directories that a run owns: locked while it lives, removed when it ends, swept by a later run if it was killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starling.core.locks import lock

_PREFIX = "starling-run-"


@contextmanager
def own_folder(root: Path) -> Iterator[Path]:
    """A new empty directory in `root`, readable by this user alone; it is gone when the block is left."""
    sweep(root)
    folder, held = _claim(root)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def sweep(root: Path) -> None:
    """Remove the directories of runs that were killed."""
    for folder in root.glob(f"{_PREFIX}*"):
        held = _lock(folder)
        if held is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


def _claim(root: Path) -> tuple[Path, int]:
    while True:  # another run's sweep may come between making and locking; then there is no folder, and the next try gets one
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        held = _lock(folder)
        if held is None:
            continue
        if folder.exists():
            return folder, held
        os.close(held)


def _lock(folder: Path) -> int | None:
    """A lock on a folder; None if somebody has it, or the folder is not ours or gone."""
    try:
        return lock(folder)
    except OSError:
        return None
