"""Which rows move between workers in one layer.

A worker's rows of a layer are its own, then mirrors of others' rows, grouped by owner. What one worker sends is what the other
holds as mirrors, in the same order, so that a message carries rows and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Traffic:
    """`send[w]` are own rows that worker w holds as mirrors; mirrors of worker w's rows are `mirrors_of(w)` of this worker's.

    Traffic is the same in both directions: values go from owners to mirrors, gradients and partial sums from mirrors to owners.
    """

    owned: int
    send: tuple[NDArray[np.int64], ...]
    mirror_offsets: tuple[int, ...]

    @property
    def mirrors(self) -> int:
        """Rows that others own."""
        return self.mirror_offsets[-1]

    @property
    def rows(self) -> int:
        """All rows: own, then mirrors."""
        return self.owned + self.mirrors

    def mirrors_of(self, worker: int) -> slice:
        """Where the mirrors of a worker's rows lie among all rows."""
        return slice(self.owned + self.mirror_offsets[worker], self.owned + self.mirror_offsets[worker + 1])

    def among_mirrors(self, worker: int) -> slice:
        """Where they lie among the mirrors alone."""
        return slice(self.mirror_offsets[worker], self.mirror_offsets[worker + 1])

    def mirror_count(self, worker: int) -> int:
        """How many mirrors of a worker's rows there are."""
        return self.mirror_offsets[worker + 1] - self.mirror_offsets[worker]

    def all_own(self, rows: Tensor) -> Tensor:
        """The first own rows → all of them, the others zero."""
        missing = self.owned - len(rows)
        return torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])]) if missing else rows

    def sent_to(self, worker: int, device: torch.device) -> Tensor:
        """`send[worker]` as a tensor, brought to a device once."""
        kept: dict[tuple[int, torch.device], Tensor] = self.__dict__.setdefault("_sent_to", {})
        if (worker, device) not in kept:
            kept[worker, device] = torch.from_numpy(self.send[worker]).to(device)
        return kept[worker, device]

    @cached_property
    def boundary(self) -> NDArray[np.int64]:
        """Own rows that anybody mirrors, each once."""
        return np.unique(np.concatenate([np.empty(0, np.int64), *self.send]))


def make_traffic(owned: int, send: Sequence[NDArray[Any]], mirrors: Sequence[int]) -> Traffic:
    """Traffic from lists of own rows to send and counts of mirrors, both by worker."""
    offsets = np.concatenate([[0], np.cumsum(mirrors)]).tolist()
    return Traffic(owned, tuple(np.ascontiguousarray(rows, np.int64) for rows in send), tuple(offsets))
