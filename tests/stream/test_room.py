from __future__ import annotations

import pytest

from starling.core.memory import rss_bytes
from starling.stream.room import LEAST, MOST_BUCKETS, Room


def test_room_is_what_the_budget_leaves() -> None:
    assert Room.within(1).bytes == LEAST
    budget = rss_bytes() + (1 << 30)
    assert 0.7 * (1 << 30) < Room.within(budget).bytes < 0.85 * (1 << 30)


def test_blocks_fit_an_eighth_of_the_room() -> None:
    assert Room(8_000).rows(10) == 100
    assert Room(8).rows(100) == 1
    assert Room(1 << 40).rows(1) == 1 << 20


def test_buckets_fit_half_the_room_on_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STARLING_THREADS", "2")
    assert Room(4_000).buckets(100, 10) == 1
    assert Room(3_999).buckets(100, 10) == 2
    assert Room(1_000).buckets(100, 10) == 4
    assert Room(1).buckets(10_000, 10) == MOST_BUCKETS
    assert Room(1 << 40).buckets(0, 10) == 1
