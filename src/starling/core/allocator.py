"""What becomes of freed memory: kept for steps that allocate the same arrays again and again, given back where a peak counts.

glibc gives every array above 32 MiB (at most) back to the system when it is freed, and the next one comes as pages to be zeroed.
Arrays of a step on sampled batches, and the narrow ones of an epoch, are kept instead. The widest of a large graph are not: holes
between them would add half a gigabyte to a peak of one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
KEPT_ARRAY_BYTES, _SYSTEM_BYTES, _ARRAY_BYTES = 1 << 26, 1 << 25, 1 << 20
_MOST_FREE = 1 << 30
"""Free memory at the heap's end is kept too: two batches of 32 MiB there would be given back and asked for again every step."""


_given_back = [_SYSTEM_BYTES]


def keep_freed_memory() -> None:
    """Ask glibc to keep freed arrays of up to 64 MiB; other C libraries are left as they are."""
    _given_back[0] = KEPT_ARRAY_BYTES
    _ask(_M_ARENA_MAX, 1)  # other arenas keep no array above 64 MiB, and batches are made in another thread
    _give_back_from(KEPT_ARRAY_BYTES)


@contextmanager
def freed_memory_given_back() -> Iterator[None]:
    """Every freed array of 1 MiB or more goes back to the system at once, for as long as the block lasts."""
    _give_back_from(_ARRAY_BYTES)
    try:
        yield
    finally:
        _give_back_from(_given_back[0])


def release_freed_memory(at_least: int = 0) -> None:
    """Give back what is free now, if the heap has so many bytes of holes: temporary arrays that nothing will soon ask for again.

    Pages that are asked for again come zeroed, a tenth of a second for some hundred megabytes.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None and freed_bytes() >= at_least:
        trim(0)


def freed_bytes() -> int:
    """Of the heap's holes, whether their pages were given back or not; 0 where the C library does not tell."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return 0
    ask.restype = _HeapCounts
    free: int = ask().fordblks
    return free


class _HeapCounts(ctypes.Structure):
    """glibc's ``struct mallinfo2``; `fordblks` are the bytes of free blocks."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    )


def _give_back_from(size: int) -> None:
    _ask(_M_MMAP_THRESHOLD, size)
    _ask(_M_TRIM_THRESHOLD, _MOST_FREE if size == KEPT_ARRAY_BYTES else size)


def _ask(option: int, value: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(option, value)
