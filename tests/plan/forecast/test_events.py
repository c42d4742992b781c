"""The simulation of workers and links: steps worked out by hand, and a slow twin."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.plan.forecast.events import Exchange, simulate
from starling.plan.forecast.network import Network

LINK = Network(bandwidth=100.0, latency=1.0, message=0.0)


def test_one_worker_only_computes() -> None:
    found = simulate((Exchange(1, 2, 3, 100),), 4.0, np.array([2.0]), LINK)
    assert (found.seconds, found.waiting) == (20.0, 0.0)


def test_messages_behind_computation_cost_nothing() -> None:
    # 1 s before, the message takes 2 s on the link and 1 s under way, meanwhile 5 s of work; then 3 s of adding
    found = simulate((Exchange(1, 5, 3, 200),), 0.5, np.ones(2), LINK)
    assert found.seconds == pytest.approx(1 + 5 + 3 + 0.5)
    assert found.waiting == 0


def test_waiting_for_a_message() -> None:
    # nothing to do meanwhile: 1 s before, then 2 s on the sender's link, 1 s under way, received as it comes
    found = simulate((Exchange(1, 0, 3, 200),), 0.0, np.ones(2), LINK)
    assert found.seconds == pytest.approx(1 + 2 + 1 + 3)
    assert found.waiting == pytest.approx(3)


def test_links_carry_one_message_after_the_other() -> None:
    # three workers: the second message leaves 2 s after the first and is added after it
    found = simulate((Exchange(0, 0, 0, 200),), 0.0, np.ones(3), LINK)
    assert found.seconds == pytest.approx(2 + 2 + 1)


def test_everybody_waits_for_the_slowest() -> None:
    found = simulate((Exchange(1, 0, 0, 100), Exchange(1, 0, 0, 100)), 0.0, np.array([3.0, 1.0]), LINK)
    # the slow one sends after 3 s, 3 s on its link; the other has it after 7 s and computes 1 s more; the slow one, which had
    # the first message after 3 s and computes for 3 s, sends again at 6 s, 3 s on its link and 1 s under way
    assert found.seconds == pytest.approx(6 + 3 + 1)


def test_a_message_costs_its_sender() -> None:
    costly = Network(bandwidth=100.0, latency=0.0, message=0.25)
    found = simulate((Exchange(0, 0, 0, 100),), 0.0, np.ones(2), costly)
    assert found.seconds == pytest.approx(1.25)


def slow_simulation(exchanges: list[Exchange], load: list[float], network: Network) -> float:
    """The same in plain Python, with a generator a worker and one event for every end of anything."""
    workers = len(load)
    came: dict[tuple[int, int, int], float] = {}
    sends, receives, ended = [0.0] * workers, [0.0] * workers, [0.0] * workers
    events: list[tuple[float, int, str, int, int, int]] = []
    count = 0

    def push(time: float, what: str, number: int, worker: int, sender: int = -1) -> None:
        nonlocal count
        count += 1
        heapq.heappush(events, (time, count, what, number, worker, sender))

    waits: dict[int, tuple[int, int, float]] = {}

    def add(worker: int, number: int, step: int, now: float) -> None:
        while step < workers:
            sender = (worker + step) % workers
            if (number, worker, sender) not in came:
                waits[worker] = (number, step, now)
                return
            now = max(now, came[number, worker, sender]) + exchanges[number].adding / (workers - 1) * load[worker]
            step += 1
        ended[worker] = now
        if number + 1 < len(exchanges):
            push(now + exchanges[number + 1].before * load[worker], "send", number + 1, worker)

    for worker in range(workers):
        push(exchanges[0].before * load[worker], "send", 0, worker)
    while events:
        now, _, what, number, worker, sender = heapq.heappop(events)
        one = exchanges[number]
        if what == "send":
            for step in range(1, workers):
                sends[worker] = max(sends[worker], now) + network.message + one.message * load[worker] / network.bandwidth
                push(sends[worker] + network.latency, "arrive", number, (worker + step) % workers, worker)
            add(worker, number, 1, now + one.during * load[worker] + network.message * (workers - 1))
        else:
            receives[worker] = max(now, receives[worker] + one.message * load[sender] / network.bandwidth)
            came[number, worker, sender] = receives[worker]
            if worker in waits and waits[worker][0] == number and (worker + waits[worker][1]) % workers == sender:
                number, step, since = waits.pop(worker)
                add(worker, number, step, since)
    return max(ended)


seconds = st.floats(0, 5).map(lambda value: round(value, 3))
exchange = st.builds(Exchange, seconds, seconds, seconds, st.floats(1, 500).map(lambda value: round(value, 1)))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(exchange, min_size=1, max_size=4),
    st.lists(st.floats(0.5, 2).map(lambda value: round(value, 2)), min_size=2, max_size=6),
    st.builds(Network, st.just(100.0), st.floats(0, 1), st.floats(0, 0.1)),
)
def test_equals_the_slow_simulation(exchanges: list[Exchange], load: list[float], network: Network) -> None:
    found = simulate(tuple(exchanges), 0.0, np.array(load), network)
    assert found.seconds == pytest.approx(slow_simulation(exchanges, load, network), rel=1e-9)
    computing = max(factor * sum(e.before + e.during + e.adding for e in exchanges) for factor in load)
    assert found.seconds >= computing - 1e-9
