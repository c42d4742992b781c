"""Locks on directories: the operating system's (flock on the directory itself), so they end with their process, however it ends.

Unlike a process number, a lock cannot be mistaken for another's, nor for one of a different container.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def lock(folder: Path) -> int:
    """Lock a directory for as long as the file number that this gives is open; a `BlockingIOError` where somebody has it."""
    file = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise
    return file
