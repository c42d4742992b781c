"""Equal counts, ranges where their nodes are, and schedules that deal out every node once."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.engine.data.schedule import GlobalShuffle, LocalShuffle, TrainingNodes
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


def schedules(kind: str, **changed: Any) -> list[Any]:
    settings = {"seed": 1, "shuffle": True}
    if kind == "global":
        return [GlobalShuffle(NODES, 4, worker, 3, **settings) for worker in range(3)]
    return [LocalShuffle(NODES, 4, worker, HOMES, **settings, **changed) for worker in range(3)]


@pytest.mark.parametrize("kind", ["global", "local", "own"])
def test_every_node_is_a_target_once_an_epoch(kind: str) -> None:
    workers = schedules("local", own_only=True) if kind == "own" else schedules(kind)
    assert {worker.steps_per_epoch for worker in workers} == {3}
    for epoch in (1, 2):
        steps = [[worker.step(epoch, step) for worker in workers] for step in range(3)]
        everything = np.concatenate([share.targets for step in steps for share in step])
        assert np.sort(everything).tolist() == NODES.ids.tolist()
        for shares in steps:
            assert {share.total for share in shares} == {sum(len(share.targets) for share in shares)}
        if kind != "own":
            assert [shares[0].total for shares in steps] == [4, 4, 3]
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
        schedule = schedules("local", own_only=True)[worker]
        targets = np.concatenate([schedule.step(1, step).targets for step in range(3)])
        assert np.sort(targets).tolist() == [node for node in NODES.ids if first <= node < last]


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
