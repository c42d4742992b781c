"""When messages leave, by hand."""

from __future__ import annotations

import numpy as np

from starling.engine.hybrid.computing.departures import Departures

MADE_OF = {1: np.array([True, False, True, False]), 2: np.array([False, False, True, False]), 3: np.zeros(4, np.bool_)}


def test_messages_leave_when_their_last_block_is_done() -> None:
    sent: list[int] = []
    leaving = Departures(MADE_OF, sent.append)
    assert sent == [3]  # it is made of no block
    leaving.done(1)
    leaving.done(0)
    assert sent == [3]
    leaving.done(2)
    assert sent == [3, 1, 2]
    leaving.done(3)
    leaving.send_rest()
    assert sent == [3, 1, 2]


def test_all_leave_together_when_told() -> None:
    sent: list[int] = []
    leaving = Departures(MADE_OF, sent.append, at_once=False)
    for block in range(4):
        leaving.done(block)
    assert not sent
    leaving.send_rest()
    assert sent == [1, 2, 3]


def test_blocks_that_messages_are_made_of_come_first() -> None:
    leaving = Departures(MADE_OF, lambda worker: None)
    assert leaving.first([0, 1, 2, 3]) == [0, 2, 1, 3]
    assert leaving.first([3, 1]) == [3, 1]
    assert Departures({}, lambda worker: None).first(range(3)) == [0, 1, 2]
