from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import pytest

from starling.core.errors import InputError, StarlingError
from starling.plan.background import Background


def alive(stage: str) -> bool:
    return any(thread.name == f"starling-{stage}" for thread in threading.enumerate())


def test_items_come_in_order() -> None:
    with Background(range(100), stage="counting", depth=3) as numbers:
        assert list(numbers) == list(range(100))
        assert list(numbers) == []
    assert not alive("counting")


def test_it_runs_ahead_by_its_depth_and_no_more() -> None:
    made: list[int] = []
    third = threading.Event()

    def items() -> Iterator[int]:
        for number in range(10):
            made.append(number)
            if number == 2:
                third.set()
            yield number

    with Background(items(), stage="ahead", depth=3) as numbers:
        assert third.wait(10)
        time.sleep(0.05)
        assert made == [0, 1, 2]
        assert next(numbers) == 0


def test_leaving_early_stops_the_thread_and_closes_the_source() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    with Background(endless(), stage="endless") as ones:
        assert next(ones) == 1
    assert closed.is_set()
    assert not alive("endless")
    with pytest.raises(StopIteration):
        next(ones)


def test_a_forgotten_one_stops_too() -> None:
    ones = Background(iter(lambda: 1, 2), stage="forgotten")
    assert next(ones) == 1
    del ones
    gc.collect()
    for _ in range(500):
        if not alive("forgotten"):
            return
        time.sleep(0.01)
    raise AssertionError("the thread is still there")


def failing(error: BaseException) -> Iterator[int]:
    yield 1
    raise error


def test_a_failure_of_many_lines_is_told_in_one() -> None:
    with Background(failing(ValueError("one\n\n  two")), stage="sampling") as numbers:
        next(numbers)
        with pytest.raises(StarlingError, match=r"failed: ValueError: one two$"):
            next(numbers)


def test_a_failure_names_its_stage() -> None:
    with Background(failing(ZeroDivisionError("by zero")), stage="sampling") as numbers:
        assert next(numbers) == 1
        with pytest.raises(StarlingError, match="The background stage 'sampling' failed: ZeroDivisionError: by zero") as caught:
            next(numbers)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert not alive("sampling")


def test_the_users_mistakes_keep_their_sentence_and_status() -> None:
    with (
        Background(failing(InputError("Expected labels.")), stage="sampling") as numbers,
        pytest.raises(InputError, match=r"^Expected labels\. This was in the background stage 'sampling'\.$") as caught,
    ):
        list(numbers)
    assert caught.value.exit_status == 2


def test_depth_is_checked() -> None:
    with pytest.raises(ValueError, match="depth"):
        Background([], stage="none", depth=0)
