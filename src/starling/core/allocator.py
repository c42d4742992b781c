"""Keep freed memory in the process, for steps that allocate the same arrays again and again.

glibc gives every array above 32 MiB (at most) back to the system when it is freed, and the next one comes as pages to be zeroed.
Arrays of a step on sampled batches, and the narrow ones of an epoch, are kept instead. The widest of a large graph are not: holes
between them would add half a gigabyte to a peak of one.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_KEPT_BYTES = 1 << 26
_MOST_FREE = 1 << 30
"""Free memory at the heap's end is kept too: two batches of 32 MiB there would be given back and asked for again every step."""


def keep_freed_memory() -> None:
    """Ask glibc to keep freed arrays of up to 64 MiB; other C libraries are left as they are."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _MOST_FREE)
        mallopt(_M_ARENA_MAX, 1)  # other arenas keep no array above 64 MiB, and batches are made in another thread


def release_freed_memory() -> None:
    """Give back what is free now: after loading, whose temporary arrays no step will ask for again."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
