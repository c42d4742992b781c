"""Accounts: time goes to the innermost kind, counting begins anew after each close."""

from __future__ import annotations

import json
import threading
import time

import pytest

from starling.comm.ledger import Ledger


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that shows what the test sets."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_time_goes_to_the_innermost_kind(clock: list[float]) -> None:
    ledger = Ledger(2, _began=0.0)
    clock[0] = 1.0
    with ledger.time("reducing"):
        clock[0] = 3.0
        with ledger.time("waiting"):
            clock[0] = 7.0
        with ledger.time("communication"):
            clock[0] = 7.5
        clock[0] = 8.0
    clock[0] = 10.0
    accounts = ledger.close()
    assert (accounts.compute, accounts.reducing, accounts.waiting, accounts.communication) == (3.0, 2.5, 4.0, 0.5)
    assert ledger.close().reducing == 0.0


def test_bytes_and_rows() -> None:
    ledger = Ledger(3)
    for peer, count in ((1, 10), (2, 5), (1, 10)):
        ledger.sent(peer, count)
    for layer, rows in ((0, 7), (2, 9), (0, 1)):
        ledger.came(layer, rows)
    accounts = ledger.close()
    assert accounts.bytes_to == (0, 20, 5)
    assert accounts.rows_by_layer == (8, 0, 9)
    assert json.loads(json.dumps(accounts.to_json()))["bytes_to"] == [0, 20, 5]
    assert ledger.close().bytes_to == (0, 0, 0)


def test_bytes_apart_are_this_threads_and_count_later() -> None:
    ledger = Ledger(2)
    with ledger.apart() as book:
        ledger.sent(1, 10)
        other = threading.Thread(target=ledger.sent, args=(1, 3))
        other.start()
        other.join()
    ledger.sent(1, 4)
    assert book == {1: 10}
    assert ledger.close().bytes_to == (0, 7)


def test_time_behind_the_one_that_computes_is_not_counted() -> None:
    ledger = Ledger(2)
    with ledger.behind(), ledger.time("waiting"):
        time.sleep(0.01)
    with ledger.time("reducing"):
        time.sleep(0.01)
    accounts = ledger.close()
    assert accounts.waiting == 0
    assert accounts.reducing > 0
