"""A discrete-event simulation of workers and links: who computes, what flies, who waits for whom.

A step is a list of exchanges, the same for all workers. In each of them a worker computes, sends a message to every other, goes on
computing while they fly, and adds what comes, message by message in its order of peers (engine/hybrid/computing/view.py). A
worker's link sends one message after the other and receives one after the other, each way at its own pace. Events are a message's
arrival and a worker that can go on; a heap has them in order of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.plan.forecast.network import Network


@dataclass(frozen=True)
class Exchange:
    """One exchange of a step, in seconds and bytes of a worker with an average load.

    `before` the messages, `during` their flight, `adding` all that came; `message` are bytes to each other worker.
    """

    before: float
    during: float
    adding: float
    message: float


@dataclass(frozen=True)
class Simulated:
    """When the last worker ended a step, and how long workers waited for messages, on average."""

    seconds: float
    waiting: float


def simulate(exchanges: tuple[Exchange, ...], last: float, load: NDArray[np.float64], network: Network) -> Simulated:
    """One step of workers that begin together; `load` [workers] scales the work and messages of each, `last` ends the step."""
    workers = len(load)
    if workers == 1 or not exchanges:
        alone = sum(e.before + e.during + e.adding for e in exchanges) + last
        return Simulated(float(alone * load.max()), 0.0)
    table = np.array([(e.before, e.during, e.adding / (workers - 1), e.message) for e in exchanges], np.float64)
    ended, waited = np.zeros(workers), np.zeros(workers)
    _run(table, np.ascontiguousarray(load, np.float64), network.bandwidth, network.latency, network.message, ended, waited)
    return Simulated(float((ended + last * load).max()), float(waited.mean()))


@compiled
def _push(times: NDArray[np.float64], keys: NDArray[np.int64], size: int, time: float, key: int) -> int:
    """Add an event to the heap; returns its new size."""
    place = size
    while place > 0:
        above = (place - 1) // 2
        if times[above] <= time:
            break
        times[place], keys[place] = times[above], keys[above]
        place = above
    times[place], keys[place] = time, key
    return size + 1


@compiled
def _drop_first(times: NDArray[np.float64], keys: NDArray[np.int64], size: int) -> int:
    """Take the earliest event out of the heap; returns its new size."""
    size -= 1
    time, key = times[size], keys[size]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and times[below + 1] < times[below]:
            below += 1
        if times[below] >= time:
            break
        times[place], keys[place] = times[below], keys[below]
        place = below
    times[place], keys[place] = time, key
    return size


@compiled
def _run(
    exchanges: NDArray[np.float64],
    load: NDArray[np.float64],
    bandwidth: float,
    latency: float,
    overhead: float,
    ended: NDArray[np.float64],
    waited: NDArray[np.float64],
) -> Any:
    """All events of a step. An event's key is (exchange, receiver, sender + 1); sender 0 is the worker itself."""
    count, workers = len(exchanges), len(load)
    came = np.full((count, workers, workers), np.inf)  # when a message has been received whole
    sends, receives = np.zeros(workers), np.zeros(workers)  # until when each link is busy, by direction
    at, peer = np.zeros(workers, np.int64), np.zeros(workers, np.int64)  # the exchange of each worker, and its next peer
    computing, clock = np.ones(workers, np.bool_), np.zeros(workers)
    room = 2 * workers * (workers + 2)  # of each pair two messages may fly: who sends a third has heard of the first
    times, keys = np.empty(room), np.empty(room, np.int64)
    size, span = 0, workers + 1
    for worker in range(workers):
        size = _push(times, keys, size, exchanges[0, 0] * load[worker], worker * span)
    while size:
        now, key = times[0], keys[0]
        size = _drop_first(times, keys, size)
        sender, worker, number = key % span - 1, key // span % workers, key // (span * workers)
        if sender >= 0:  # a message is at the receiver's link
            done = max(now, receives[worker] + exchanges[number, 3] * load[sender] / bandwidth)
            receives[worker] = done
            came[number, worker, sender] = done
            if computing[worker] or at[worker] != number or (worker + 1 + peer[worker]) % workers != sender:
                continue
            now = max(done, clock[worker])
            waited[worker] += now - clock[worker]
        else:  # ready to send
            for step in range(1, workers):
                receiver = (worker + step) % workers
                sends[worker] = max(sends[worker], now) + overhead + exchanges[number, 3] * load[worker] / bandwidth
                size = _push(times, keys, size, sends[worker] + latency, (number * workers + receiver) * span + worker + 1)
            now += exchanges[number, 1] * load[worker] + overhead * (workers - 1)
        computing[worker] = False
        while peer[worker] < workers - 1:
            arrival = came[number, worker, (worker + 1 + peer[worker]) % workers]
            if arrival == np.inf:
                break
            waited[worker] += max(0.0, arrival - now)
            now = max(now, arrival) + exchanges[number, 2] * load[worker]
            peer[worker] += 1
        clock[worker] = now
        if peer[worker] < workers - 1:
            continue
        ended[worker] = now
        if number + 1 < count:
            at[worker], peer[worker], computing[worker] = number + 1, 0, True
            size = _push(
                times, keys, size, now + exchanges[number + 1, 0] * load[worker], ((number + 1) * workers + worker) * span
            )
    return 0
