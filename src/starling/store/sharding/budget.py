"""What the work may still take of the memory it was given."""

from __future__ import annotations

from dataclasses import dataclass

from starling.core.memory import rss_bytes

LEAST_WORKING_MEMORY = 32 << 20
_BLOCKS = 96 << 20  # blocks being read, relabelled and written


@dataclass(frozen=True)
class Budget:
    """A limit on the resident memory of this process, in bytes."""

    limit: int

    def left(self) -> int:
        """Bytes that one large working array, or several together, may take now."""
        return max(LEAST_WORKING_MEMORY, self.limit - rss_bytes() - _BLOCKS)
