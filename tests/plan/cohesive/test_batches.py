from __future__ import annotations

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.plan.cohesive.batches import CohesiveBatches


def made(regroup_every: int = 0, each: int = 4, batches: int = 5, seed: int = 0) -> CohesiveBatches:
    label = np.repeat(np.arange(each * batches), 3)
    position = np.random.default_rng(1).permutation(len(label))
    return CohesiveBatches(position, position + 100, label, each, seed=seed, regroup_every=regroup_every)


def contents(batches: CohesiveBatches, epoch: int) -> list[list[int]]:
    return [sorted(batches.batch(epoch, step).tolist()) for step in range(batches.steps)]


def test_every_target_once_an_epoch_in_an_order_of_its_own() -> None:
    batches = made()
    first, second = contents(batches, 1), contents(batches, 2)
    assert sorted(row for batch in first for row in batch) == list(range(100, 160))
    assert first != second
    assert sorted(first) == sorted(second), "the batches stay, their order changes"
    assert contents(made(), 2) == second


def test_clusters_change_places_and_come_back_to_the_same_start() -> None:
    batches = made(regroup_every=3)
    assert sorted(contents(batches, 1)) == sorted(contents(batches, 3)) == sorted(contents(made(), 1))
    later = contents(batches, 4)
    assert sorted(later) != sorted(contents(batches, 1))
    assert sorted(row for batch in later for row in batch) == list(range(100, 160))
    assert [len(batch) for batch in later] == [12] * 5, "as many clusters come as go"
    assert contents(made(regroup_every=3), 4) == later
    kept = [max(len(set(a) & set(b)) for b in contents(batches, 1)) for a in later]
    assert min(kept) >= 9, "most of a batch stays together"


def test_only_batches_with_targets_are_steps() -> None:
    batches = CohesiveBatches(np.arange(4), np.arange(4), np.array([0, 1, 8, 9]), 2, seed=0)
    assert batches.steps == 2
    assert sorted(contents(batches, 1)) == [[0, 1], [2, 3]]
    assert [sorted(batches.targets(number).tolist()) for number in range(2)] == [[0, 1], [2, 3]]
    assert {batches.number(1, step) for step in range(2)} == {0, 1}


def test_targets_without_a_batch_are_refused() -> None:
    with pytest.raises(InputError, match="Expected every training node in a cohesive batch"):
        CohesiveBatches(np.arange(2), np.arange(2), np.array([0, -1]), 1, seed=0)
