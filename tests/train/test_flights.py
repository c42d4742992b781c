"""Lanes keep order and hand errors on; a step waits for the one before it in its lane."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from starling.train.flights import CallersLane, Flights, Lane, ThreadLane


@pytest.mark.parametrize("kind", [CallersLane, partial(ThreadLane, "test")])
def test_lanes_keep_order_and_hand_errors_on(kind: type[CallersLane]) -> None:
    lane: Lane = kind()
    results = [lane.submit(partial(divmod, 7, divisor)) for divisor in (2, 0, 3)]
    assert results[0].result() == (3, 1)
    with pytest.raises(ZeroDivisionError):
        results[1].result()
    assert results[2].result() == (2, 1)
    lane.close(wait=True)


def test_a_closed_lane_drops_what_it_has_not_begun() -> None:
    lane, begun, go_on = ThreadLane("test"), threading.Event(), threading.Event()

    def first() -> bool:
        begun.set()
        return go_on.wait(10)

    under_way, dropped = lane.submit(first), lane.submit(lambda: None)
    begun.wait(10)
    lane.close(wait=False)
    go_on.set()
    assert under_way.result() is True
    assert dropped.cancelled()


def test_a_step_waits_for_the_one_before_it_in_its_lane() -> None:
    flights, go_on = Flights(2), threading.Event()
    first, second = flights.start(0, lambda: go_on.wait(10)), flights.start(1, lambda: None)
    flights.wait_for_room(3)  # the lane of step 1
    assert second.done()
    assert not first.done()
    go_on.set()
    flights.wait_for_room(2)
    assert first.done()
    flights.close(wait=True)
