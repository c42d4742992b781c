"""How much fits: sizes of blocks and numbers of buckets from the memory an import may use."""

from __future__ import annotations

from dataclasses import dataclass

from starling.core.environment import thread_count
from starling.core.memory import rss_bytes

LEAST = 64 << 20
"""Room that is taken even when the process fills its budget already."""

MOST_BUCKETS = 256
"""So that a bucket number is a byte and the files of two sets of buckets can be open at once."""

_MOST_ROWS = 1 << 20  # larger blocks are not faster
_EASY_BUCKET = 1 << 17  # records whose table stays near the processor


@dataclass(frozen=True)
class Room:
    """Memory for data, in bytes, beyond what the process holds without any."""

    bytes: int

    @classmethod
    def within(cls, memory: int) -> Room:
        """What is left of a budget for the whole process, less a fifth for what cannot be planned."""
        return cls(max(LEAST, (memory - rss_bytes()) * 4 // 5))

    def rows(self, row_bytes: int) -> int:
        """Rows of a block that streams through, when all that is held of a row takes `row_bytes`."""
        return max(1, min(_MOST_ROWS, self.bytes // 8 // row_bytes))

    def buckets(self, records: int, record_bytes: int) -> int:
        """Buckets to spread records over, so that each thread can hold one, at `record_bytes` a record, in half the room."""
        needed = -(-records * record_bytes * thread_count() * 2 // self.bytes)
        return max(1, min(MOST_BUCKETS, max(needed, records // _EASY_BUCKET)))
