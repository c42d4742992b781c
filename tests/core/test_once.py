"""Properties that one thread makes while others wait."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from starling.core.once import made_once


@dataclass(frozen=True, eq=False)
class Holder:
    made: list[str]
    other: threading.Event

    @made_once
    def value(self) -> list[int]:
        """Its document."""
        self.made.append("value")
        time.sleep(0.05)
        return [3]

    @made_once
    def twice(self) -> int:
        """Made of another."""
        return 2 * self.value[0]

    @made_once
    def fails(self) -> int:
        self.made.append("fails")
        raise ValueError("once")

    @made_once
    def waits_for_another_holder(self) -> bool:
        self.made.append("waits")
        return self.other.wait(10)


def test_all_threads_get_what_one_made() -> None:
    holder = Holder([], threading.Event())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: holder.value, range(8)))
    assert holder.made == ["value"]
    assert all(value is found[0] for value in found)
    assert holder.twice == 6
    assert Holder.value.__doc__ == "Its document."


def test_an_error_is_not_kept() -> None:
    holder = Holder([], threading.Event())
    for _ in range(2):
        with pytest.raises(ValueError, match="once"):
            _ = holder.fails
    assert holder.made == ["fails", "fails"]


def test_holders_do_not_wait_for_one_another() -> None:
    first, second = (Holder([], threading.Event()) for _ in range(2))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: first.waits_for_another_holder)
        while not first.made:  # it is being made
            time.sleep(0.001)
        second.other.set()
        assert second.value == [3]
        assert second.waits_for_another_holder  # the same property
        assert not waiting.done()
        first.other.set()
        assert waiting.result(10)
