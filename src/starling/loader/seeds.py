"""Which seeds each rank draws batches from: equal ranges of global ids, matched to the parts (DistDGLv2 §5.6.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.engine.data.split import match_ranges, share_bounds
from starling.plan.targets import TargetBatches


@dataclass(frozen=True, eq=False)
class SeedBatch:
    """The seeds of one batch by global id, and where each stood among the input nodes that were given."""

    ids: NDArray[np.int64]
    input_id: NDArray[np.int64]


NO_SEEDS = SeedBatch(np.empty(0, np.int64), np.empty(0, np.int64))
"""The batch of a rank that only takes part in others' rounds."""


class Seeds:
    """One rank's share of `ids`, dealt in batches.

    With `pad` every rank has equally many batches: where seeds do not come out even, ranks with fewer get some of the next ranges
    (with `own_only`, of their own) a second time.
    """

    def __init__(
        self,
        ids: NDArray[np.int64],
        position: NDArray[np.int64],
        batch_size: int,
        homes: NDArray[np.int64],
        rank: int,
        *,
        seed: int,
        shuffle: bool,
        pad: bool,
        drop_last: bool,
        own_only: bool = False,
    ) -> None:
        if batch_size < 1:
            raise InputError(f"Expected a batch of at least one seed, got batch_size {batch_size}.")
        if not len(ids):
            raise InputError("Expected nodes to start from, got none. Give input_nodes that hold some.")
        order = np.argsort(ids, kind="stable")
        workers = len(homes) - 1
        if own_only:  # each rank starts from nodes that it owns, however many
            bounds, mine = np.searchsorted(ids[order], homes), rank
        else:
            bounds = share_bounds(len(ids), workers)
            mine = int(match_ranges(ids[order], bounds, homes)[rank])
        self._places = np.sort(order[bounds[mine] : bounds[mine + 1]])  # in the order given, unless they are shuffled
        others = np.roll(order, -bounds[mine + 1])[: len(ids) - len(self._places)]
        self._spare = self._places if own_only else others if len(others) else self._places
        if pad and not len(self._spare):
            raise InputError(
                f"Rank {rank} owns none of the input nodes to start from. Leave out local_only, or pass pad=False."
            )
        self._ids, self._shuffle, self._seed, self._position = ids, shuffle, seed, position
        self._size, self._drop_last = batch_size, drop_last
        most = int(np.diff(bounds).max())
        self._count = most if pad else len(self._places)
        self.most_batches = self._batches_of(most)
        """Batches of the rank that has the most of them; the same number on every rank."""

    def __len__(self) -> int:
        return self._batches_of(self._count)

    def _batches_of(self, seeds: int) -> int:
        return seeds // self._size if self._drop_last else -(-seeds // self._size)

    def epoch(self, epoch: int) -> list[SeedBatch]:
        """The batches of an epoch."""
        places = self._places
        if self._shuffle and len(places):
            dealt = TargetBatches(self._position[places], places, len(places), seed=self._seed)
            places = dealt.batch(epoch, 0)
        if self._count > len(places):
            places = np.concatenate([places, np.resize(self._spare, self._count - len(places))])
        batches = [places[start : start + self._size] for start in range(0, self._count, self._size)]
        return [SeedBatch(self._ids[batch], batch) for batch in map(_each_once, batches[: len(self)])]


def _each_once(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """A batch that was filled up holds no seed twice."""
    return places[np.sort(np.unique(places, return_index=True)[1])]
