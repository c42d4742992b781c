"""What each worker of a run did in an epoch, as medians over its epochs: the accounts that a summary keeps."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Self

from starling.comm.ledger import Accounts


@dataclass(frozen=True)
class WorkerMedians:
    """One worker: seconds, bytes and rows of a typical epoch, each number a median by itself, and its largest memory."""

    compute: float
    communication: float
    waiting: float
    reducing: float
    bytes_to: tuple[int, ...]
    """Bytes sent to each worker."""
    rows_by_layer: tuple[int, ...]
    """Rows that came from other workers, by layer, forward."""
    peak_rss_bytes: int
    """Of the whole run."""

    @classmethod
    def over(cls, epochs: Sequence[Accounts], peak: int) -> Self:
        """The medians of one worker's epochs; of an even number of whole numbers the lower of the two in the middle."""

        def seconds(kind: Callable[[Accounts], float]) -> float:
            return statistics.median(map(kind, epochs))

        def whole(lists: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
            return tuple(statistics.median_low(numbers) for numbers in zip_longest(*lists, fillvalue=0))

        return cls(
            seconds(lambda account: account.compute),
            seconds(lambda account: account.communication),
            seconds(lambda account: account.waiting),
            seconds(lambda account: account.reducing),
            whole([account.bytes_to for account in epochs]),
            whole([account.rows_by_layer for account in epochs]),
            peak,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, named as in ``metrics.jsonl``."""
        return {**vars(self), "bytes_to": list(self.bytes_to), "rows_by_layer": list(self.rows_by_layer)}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """From what `to_json` gave."""
        return cls(**{**told, "bytes_to": tuple(told["bytes_to"]), "rows_by_layer": tuple(told["rows_by_layer"])})


def medians_by_worker(epochs: Sequence[Sequence[Accounts]], peaks: Sequence[int]) -> tuple[WorkerMedians, ...]:
    """Every worker's medians, by rank, out of every epoch's accounts."""
    return tuple(WorkerMedians.over(of_worker, peak) for of_worker, peak in zip(zip(*epochs, strict=True), peaks, strict=True))
