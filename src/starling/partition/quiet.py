"""Libraries that print on their own account do it on standard error, so that ``--json`` stays one JSON object."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_STDOUT, _STDERR = 1, 2


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """While inside, whatever C code writes to standard output goes to standard error."""
    c_library = ctypes.CDLL(None)
    sys.stdout.flush()
    saved = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    try:
        yield
    finally:
        c_library.fflush(None)  # C holds what it printed in a buffer of its own
        os.dup2(saved, _STDOUT)
        os.close(saved)
