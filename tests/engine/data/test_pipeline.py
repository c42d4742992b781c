"""Stages keep order, hold to their depths and bytes, name themselves in errors, and leave no thread behind."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import pytest

from starling.core.errors import InputError, StarlingError
from starling.engine.data.pipeline import Pipeline, Stage


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("starling-t-")]


@dataclass(frozen=True)
class Heavy:
    number: int
    nbytes: int = 100


def test_order_and_composition() -> None:
    stages = [Stage("t-a", lambda n: n * 10), Stage("t-b", lambda n: n + 1, depth=1), Stage("t-c", str, depth=3)]
    with Pipeline[str](5, stages) as results:
        assert list(results) == ["1", "11", "21", "31", "41"]
        with pytest.raises(StopIteration):
            next(results)
    assert names() == []


def test_no_items() -> None:
    with Pipeline[int](0, [Stage("t-a", lambda n: n)]) as results:
        assert list(results) == []
    assert names() == []


@pytest.mark.parametrize(("depths", "ahead"), [((1, 1), 2), ((3, 1), 4), ((1, 2), 3)])
def test_no_stage_runs_further_ahead_than_there_is_room(depths: tuple[int, int], ahead: int) -> None:
    """Nothing is taken: the first stage makes as many as wait behind it and behind the next one."""
    begun: list[int] = []
    with Pipeline[int](
        50, [Stage("t-a", lambda n: begun.append(n) or n, depths[0]), Stage("t-b", lambda n: n, depths[1])]
    ) as results:
        settle(begun)
        assert len(begun) == ahead
        assert next(results) == 0
        settle(begun)
        assert len(begun) == ahead + 1


def test_bytes_hold_items_back_but_never_the_oldest() -> None:
    begun: list[int] = []
    stages = [Stage("t-a", lambda n: begun.append(n) or Heavy(n), 10), Stage("t-b", lambda item: item, 10)]
    with Pipeline[Heavy](6, stages, most_bytes=250) as results:
        settle(begun)
        assert len(begun) == 3  # the third was begun at 200 bytes
        assert [item.number for item in results] == [0, 1, 2, 3, 4, 5]
    with Pipeline[Heavy](4, stages, most_bytes=1) as results:  # less than one item: one at a time
        assert [item.number for item in results] == [0, 1, 2, 3]


def test_an_error_comes_after_what_was_ready_and_names_its_stage() -> None:
    def sample(n: int) -> int:
        if n == 2:
            raise ValueError("no such row")
        return n

    stages = [Stage("t-schedule", lambda n: n), Stage("t-sample", sample), Stage("t-copy", lambda n: n)]
    with Pipeline[int](9, stages) as results:
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(StarlingError, match="The background stage 't-sample' failed: ValueError: no such row"):
            next(results)
    assert names() == []


def test_a_users_mistake_stays_one() -> None:
    def fail(n: int) -> int:
        raise InputError("Expected more.")

    with Pipeline[int](3, [Stage("t-a", fail)]) as results, pytest.raises(InputError, match="Expected more") as caught:
        next(results)
    assert str(caught.value).endswith("This was in the background stage 't-a'.")


@pytest.mark.parametrize("taken", [0, 1, 4])
def test_leaving_early_ends_all_threads(taken: int) -> None:
    def slow(n: int) -> int:
        time.sleep(0.002)
        return n

    with Pipeline[int](10**9, [Stage(f"t-{name}", slow, depth=2) for name in "abc"]) as results:
        for expected in range(taken):
            assert next(results) == expected
    assert names() == []


def test_workers_stop_at_the_same_item() -> None:
    """One has begun 3 items, another 7: both prepare 7, and drop what nobody takes."""
    made: list[int] = []
    pipeline = Pipeline[int](
        100, [Stage("t-a", lambda n: n, 2), Stage("t-b", lambda n: made.append(n) or n)], agree=lambda _: 7
    )
    assert next(pipeline) == 0
    pipeline.close()
    assert made == list(range(7))
    assert names() == []


def test_accounts_tell_work_and_fill_and_begin_anew() -> None:
    def work(n: int) -> int:
        time.sleep(0.01)
        return n

    with Pipeline[int](4, [Stage("t-a", lambda n: n, 4), Stage("t-b", work, 1)]) as results:
        assert len(list(results)) == 4
        quick, slow = results.accounts()
        assert (quick.name, slow.name) == ("t-a", "t-b")
        assert slow.seconds >= 0.04 > quick.seconds
        assert quick.fill > 1  # the slow one finds its items waiting
        assert [account.seconds for account in results.accounts()] == [0, 0]


def test_a_stage_needs_room() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Stage("t-a", lambda n: n, 0)
    with pytest.raises(ValueError, match="at least one stage"):
        Pipeline[int](1, [])


def settle(begun: list[int]) -> None:
    """Wait until nothing more is begun."""
    seen = -1
    while seen != len(begun):
        seen = len(begun)
        time.sleep(0.05)
