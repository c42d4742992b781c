"""Slots take the oldest ready step, steal, are given up while waiting, and are never more than there are."""

from __future__ import annotations

import threading
import time

import pytest

from starling.train.slots import Slots


def wait_until_ready(slots: Slots, count: int) -> None:
    while len(slots.ready()) < count:
        time.sleep(0.001)


def test_the_oldest_ready_step_goes_first() -> None:
    slots, order = Slots(1), list[int]()

    def work(step: int) -> None:
        with slots.held(step):
            order.append(step)

    with slots.held(0):
        threads = [threading.Thread(target=work, args=(step,)) for step in (5, 2, 9, 1)]
        for number, thread in enumerate(threads, 1):
            thread.start()
            wait_until_ready(slots, number)
        assert order == []
    for thread in threads:
        thread.join()
    assert order == [1, 2, 5, 9]


def test_a_slot_takes_its_own_queue_first_and_steals_when_that_is_empty() -> None:
    """Two slots: steps 0, 2 and 4 are queued for slot 0, steps 1 and 3 for slot 1."""
    slots, order, go_on = Slots(2), list[int](), {step: threading.Event() for step in (0, 1, 2, 4, 3)}

    def work(step: int) -> None:
        with slots.held(step):
            order.append(step)
            go_on[step].wait(10)

    threads = []
    for number, step in enumerate((0, 1, 2, 4, 3)):
        threads.append(threading.Thread(target=work, args=(step,)))
        threads[-1].start()
        while len(order) + len(slots.ready()) <= number:
            time.sleep(0.001)
    assert (order, slots.ready(), slots.stolen) == ([0, 1], [2, 3, 4], 0)
    for ended, begun, stolen in ((1, 3, 0), (3, 2, 1)):  # slot 1: its own step 3 before the older 2, which it then steals
        go_on[ended].set()
        while order[-1] != begun:
            time.sleep(0.001)
        assert slots.stolen == stolen
    for event in go_on.values():
        event.set()
    for thread in threads:
        thread.join()
    assert sorted(order) == [0, 1, 2, 3, 4]


def test_an_idle_slot_leaves_a_task_to_its_own_slot_if_that_is_idle_too() -> None:
    slots = Slots(3)
    with slots.held(2):
        assert sorted(slots._idle) == [0, 1]
    assert slots.stolen == 0


def test_a_slot_is_free_while_its_holder_waits() -> None:
    slots, message, order = Slots(1), threading.Event(), list[str]()

    def older() -> None:
        with slots.held(1):
            order.append("older waits")
            with slots.given_up():
                message.wait(10)
            order.append("older goes on")

    thread = threading.Thread(target=older)
    thread.start()
    while not order:
        time.sleep(0.001)
    with slots.held(2):
        order.append("younger computes")
        message.set()
        wait_until_ready(slots, 1)
        order.append("younger ends")
    thread.join()
    assert order == ["older waits", "younger computes", "younger ends", "older goes on"]


def test_a_thread_without_a_slot_gives_up_none() -> None:
    slots = Slots(1)
    with slots.held(0), slots.given_up(), slots.given_up():
        pass  # the slot was given up once, not twice
    with slots.held(0):
        assert slots._idle == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_more_compute_at_once_than_there_are_slots(count: int) -> None:
    slots, lock, now, most = Slots(count), threading.Lock(), 0, 0

    def enter(change: int) -> None:
        nonlocal now, most
        with lock:
            now += change
            most = max(most, now)

    def work(step: int) -> None:
        with slots.held(step):
            for _ in range(3):
                enter(+1)
                time.sleep(0.001)
                enter(-1)
                with slots.given_up():
                    time.sleep(0.001)

    threads = [threading.Thread(target=work, args=(step,)) for step in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 < most <= count
    assert (sorted(slots._idle), slots.ready()) == (list(range(count)), [])
