"""Equal counts, ranges where their nodes are, and schedules that deal out every node once."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.engine.data.schedule import GlobalShuffle, LocalShuffle, PartShuffle, TrainingNodes, _turns
from starling.engine.data.split import match_ranges, share_bounds, spread_homes
from starling.plan.targets import TargetBatches


def test_shares_by_hand() -> None:
    assert share_bounds(7, 3).tolist() == [0, 2, 4, 7]
    assert share_bounds(2, 4).tolist() == [0, 0, 0, 1, 2]


@given(st.integers(0, 300), st.integers(1, 17))
def test_shares_are_equal_and_add_up(count: int, workers: int) -> None:
    sizes = np.diff(share_bounds(count, workers))
    assert sizes.sum() == count
    assert sizes.max() - sizes.min() <= 1


def test_a_range_goes_where_most_of_it_is() -> None:
    """Nodes 0–3 and 4–7; the first worker owns ids up to 1, the second the rest, so both ranges lie mostly with the second."""
    ids = np.arange(8)
    assert match_ranges(ids, np.array([0, 4, 8]), np.array([0, 2, 8])).tolist() == [0, 1]
    assert match_ranges(ids, np.array([0, 4, 8]), np.array([0, 8, 8])).tolist() == [0, 1]
    # the first owns nothing: its one range is what the others leave
    assert match_ranges(ids, np.array([0, 3, 6, 8]), np.array([0, 0, 3, 8])).tolist() == [2, 0, 1]


def test_homes_are_parts_or_sub_parts() -> None:
    offsets = np.array([0, 10, 20, 30, 40])
    subs = [np.array([first, first + 3, first + 10]) for first in (0, 10, 20, 30)]
    assert spread_homes(offsets, subs, 2).tolist() == [0, 20, 40]
    assert spread_homes(offsets, subs, 4).tolist() == [0, 10, 20, 30, 40]
    assert spread_homes(offsets[:3], subs[:2], 4).tolist() == [0, 3, 10, 13, 20]
    assert spread_homes(offsets[:2], subs[:1], 5).tolist() == [0, 2, 4, 6, 8, 10]  # more workers than sub-parts


NODES = TrainingNodes(np.array([2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31]), np.arange(11)[::-1].copy())
HOMES = np.array([0, 12, 14, 40])


def schedules(kind: str) -> list[Any]:
    settings: Any = {"seed": 1, "shuffle": True}
    if kind == "global":
        return [GlobalShuffle(NODES, 4, worker, 3, **settings) for worker in range(3)]
    if kind == "own":
        return [PartShuffle(NODES, 4, HOMES, range(worker, worker + 1), **settings) for worker in range(3)]
    return [LocalShuffle(NODES, 4, worker, HOMES, **settings) for worker in range(3)]


@pytest.mark.parametrize("kind", ["global", "local", "own"])
def test_every_node_is_a_target_once_an_epoch(kind: str) -> None:
    workers = schedules(kind)
    assert {worker.steps_per_epoch for worker in workers} == {3}
    for epoch in (1, 2):
        steps = [[worker.step(epoch, step) for worker in workers] for step in range(3)]
        everything = np.concatenate([share.targets for step in steps for share in step])
        assert np.sort(everything).tolist() == NODES.ids.tolist()
        for shares in steps:
            assert {share.total for share in shares} == {sum(len(share.targets) for share in shares)}
        assert [shares[0].total for shares in steps] == [4, 4, 3]
        if kind != "own":
            counts = [[len(share.targets) for share in shares] for shares in steps]
            assert all(max(step) - min(step) <= 1 for step in counts)


def test_global_shares_are_one_process_batches() -> None:
    whole = TargetBatches(NODES.position, NODES.ids, 4, seed=1)
    for step in range(3):
        shares = [worker.step(2, step).targets for worker in schedules("global")]
        assert np.concatenate(shares).tolist() == np.sort(whole.batch(2, step)).tolist()


def test_own_nodes_only() -> None:
    """Workers own 5, 1 and 5 of them."""
    for worker, (first, last) in enumerate(itertools.pairwise(HOMES)):
        schedule = schedules("own")[worker]
        targets = np.concatenate([schedule.step(1, step).targets for step in range(3)])
        assert np.sort(targets).tolist() == [node for node in NODES.ids if first <= node < last]


def test_turns_by_hand() -> None:
    """Parts of 1, 2 and 3 at 1/2; 1/4 and 3/4; 1/6, 1/2 and 5/6; an empty one has none."""
    assert _turns(np.array([1, 2, 0, 3])).tolist() == [3, 1, 0, 3, 1, 3]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=7), st.integers(1, 50), st.integers(1, 7))
def test_own_targets_depend_on_parts_alone(sizes: list[int], batch: int, workers: int) -> None:
    """Whoever has which parts: the same targets in every step, `batch` of them, of each part its share within one."""
    count = sum(sizes)
    if not count:
        return
    offsets = np.concatenate([[0], np.cumsum(np.array(sizes) + 3)])  # three more nodes a part, which are no targets
    ids = np.concatenate([np.arange(size) + first for first, size in zip(offsets, sizes, strict=False)])
    nodes, batch = TrainingNodes(ids, ids[::-1].copy()), min(batch, count)

    def steps(shares: list[range]) -> list[list[int]]:
        dealt = [PartShuffle(nodes, batch, offsets, own, seed=3, shuffle=True) for own in shares]
        found = []
        for step in range(dealt[0].steps_per_epoch):
            parts = [schedule.step(2, step) for schedule in dealt]
            found.append(np.sort(np.concatenate([share.targets for share in parts])).tolist())
            assert {share.total for share in parts} == {len(found[-1])}
        return found

    alone = steps([range(len(sizes))])
    assert [len(step) for step in alone[:-1]] == [batch] * (len(alone) - 1)
    assert sorted(itertools.chain(*alone)) == ids.tolist()
    bounds = [len(sizes) * worker // workers for worker in range(workers + 1)]
    assert steps([range(first, last) for first, last in itertools.pairwise(bounds)]) == alone
    dealt = np.zeros(len(sizes))
    for number, step in enumerate(alone, start=1):
        dealt += np.bincount(np.searchsorted(offsets, step, side="right") - 1, minlength=len(sizes))
        share = np.array(sizes) * min(number * batch, count) / count
        assert np.abs(dealt - share).max() <= max(1, len(sizes) / 2)


def test_no_step_is_empty() -> None:
    """Four parts in batches of two: what each part had rounded down left 10 of 40 steps without a target."""
    sizes = np.array([10, 20, 20, 30])
    ids, offsets = np.arange(80), np.concatenate([[0], np.cumsum(sizes)])
    schedule = PartShuffle(TrainingNodes(ids, ids), 2, offsets, range(4), seed=0, shuffle=True)
    assert [len(schedule.step(1, step).targets) for step in range(40)] == [2] * 40


def test_epochs_differ_and_numbers_go_on() -> None:
    (first, *_) = schedules("local")
    assert not np.array_equal(first.step(1, 0).targets, first.step(2, 0).targets)
    assert (first(3).epoch, first(3).step, first(3).number) == (2, 0, 3)


def test_a_worker_without_nodes_takes_part() -> None:
    nodes = TrainingNodes(np.array([1]), np.array([0]))
    shares = [LocalShuffle(nodes, None, worker, np.array([0, 5, 9]), seed=0, shuffle=True).step(1, 0) for worker in range(2)]
    assert sorted(len(share.targets) for share in shares) == [0, 1]
    assert {share.total for share in shares} == {1}


def test_no_training_nodes_is_an_error() -> None:
    with pytest.raises(InputError, match="Expected training nodes"):
        TrainingNodes(np.empty(0, np.int64), np.empty(0, np.int64))
