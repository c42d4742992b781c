"""Processor time of other programs, by hand and from the system's own counters."""

from __future__ import annotations

import pytest

from starling.launch.other_work import ProcessorTime, others_share


@pytest.mark.parametrize(
    ("busy", "mine", "share"),
    [(10, 10, 0.0), (15, 10, 0.25), (20, 0, 1.0), (9, 10, 0.0), (99, 0, 1.0)],
    ids=["alone", "a quarter", "only others", "counters that lag", "more than there is"],
)
def test_others_by_hand(busy: float, mine: float, share: float) -> None:
    # 10 seconds of two processors are 20
    assert others_share(ProcessorTime(5, 100, 7), ProcessorTime(15, 100 + busy, 7 + mine), 2) == share


def test_no_time_at_all() -> None:
    now = ProcessorTime.now()
    assert others_share(now, now, 2) == 0


def test_counters_only_rise() -> None:
    before = ProcessorTime.now()
    sum(range(100_000))
    after = ProcessorTime.now()
    assert after.clock >= before.clock
    assert after.mine >= before.mine
    assert after.busy >= before.busy
