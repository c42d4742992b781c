"""What a worker is doing right now, in words: named in the message when it fails, or stops answering."""

from __future__ import annotations

import time


class Phase:
    """The current phase; set by the worker's main thread, read by whoever reports on it."""

    def __init__(self) -> None:
        self.name, self.since = "starting", time.monotonic()

    def enter(self, name: str) -> None:
        """A new phase begins."""
        self.name, self.since = name, time.monotonic()

    def __str__(self) -> str:
        return self.name
