"""The only file that reads environment variables."""

from __future__ import annotations

import os

from starling.core.errors import InputError


def thread_count() -> int:
    """Threads a kernel may use: STARLING_THREADS, else the cores this process may run on."""
    text = os.environ.get("STARLING_THREADS")
    if text is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"Expected STARLING_THREADS to be a whole number of at least 1, got '{text}'.")
    return int(text)


def prefer_huge_pages() -> None:
    """Ask torch for 2 MiB pages, unless the user has decided; must come before torch is imported.

    Neighbour rows are read at random, and with small pages a quarter of that time goes into looking up addresses.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
