"""Keep freed memory in the process, for steps that allocate the same large arrays again and again.

glibc gives every array above 32 MiB (at most) back to the system when it is freed, and the next one of that size comes back as
zeroed pages: a tenth of the time of an epoch on a large graph. Peak memory is that of one step either way.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_KEPT_BYTES = 1 << 30


def keep_freed_memory() -> None:
    """Ask glibc to keep freed arrays of up to 1 GiB; other C libraries are left as they are."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_ARENA_MAX, 1)  # other arenas keep no array above 64 MiB, and batches are made in another thread
