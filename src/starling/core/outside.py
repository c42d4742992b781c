"""Failures that no program can do anything about, as one sentence: a full disk, a place one may not write to, no more memory."""

from __future__ import annotations

import errno

from starling.core.errors import InputError, StarlingError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NAMED_WRONGLY = (
    errno.EACCES,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
)
_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")
"""How torch says it, in a RuntimeError."""


def outside_cause(error: Exception) -> StarlingError | None:
    """What to tell of an error that came from outside; None for one that is ours, whose traceback is worth seeing."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return StarlingError(f"No space left on the device{_while_at(error)}. Free some space, or choose another place.")
    if isinstance(error, OSError) and error.errno in _NAMED_WRONGLY and error.filename is not None:
        return InputError(
            f"Cannot use {_name(error)}: {error.strerror}. Choose another place, or see to it that it can be used."
        )
    said = str(error).lower()
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(words in said for words in _NO_MEMORY)):
        return StarlingError(
            "The machine has not enough memory for this. Take smaller layers, smaller batches or more parts; starling forecast "
            "tells what a run will need."
        )
    return None


def _while_at(error: OSError) -> str:
    return "" if error.filename is None else f" while writing {_name(error)}"


def _name(error: OSError) -> str:
    name = str(error.filename)
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"


_LONGEST = 200
