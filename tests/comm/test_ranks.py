"""The helper that other tests stand on: results by rank, errors with their place, nothing left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import pytest
import torch

from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.core.errors import StarlingError
from tests.support.ranks import Transport, run_ranks, try_ranks

TAG = make_tag(Channel.SUMS, 0, 0)


def sum_of_ranks(team: Team, more: int) -> tuple[int, float]:
    return team.rank, float(team.all_sum(TAG, torch.tensor([float(team.rank + more)])))


@pytest.mark.parametrize(("size", "transport"), [(1, "auto"), (2, "gloo"), (4, "auto"), (4, "threads")])
def test_results_come_by_rank(size: int, transport: Transport) -> None:
    total = sum(rank + 10.0 for rank in range(size))
    assert run_ranks(size, sum_of_ranks, 10, transport=transport) == [(rank, total) for rank in range(size)]


def test_a_function_may_be_named() -> None:
    assert run_ranks(2, f"{__name__}:sum_of_ranks", 0) == [(0, 1.0), (1, 1.0)]


def fail_on_one(team: Team) -> None:
    if team.rank == 1:
        raise StarlingError("one is tired")
    team.all_sum(TAG, torch.ones(1))


@pytest.mark.parametrize("transport", ["auto", "gloo"])
def test_the_first_error_is_raised_with_its_place(transport: Transport) -> None:
    with pytest.raises(StarlingError, match="one is tired") as caught:
        run_ranks(2, fail_on_one, transport=transport)
    assert "on worker 1" in caught.value.__notes__[0]
    assert "fail_on_one" in caught.value.__notes__[0]


class Odd(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__("cannot be made again from its message")


def fail_oddly(team: Team) -> None:
    raise Odd(1, 2)


def test_an_error_that_cannot_be_sent_is_still_an_error() -> None:
    with pytest.raises(RuntimeError, match="made again") as caught:
        run_ranks(1, fail_oddly)
    assert "fail_oddly" in caught.value.__notes__[0]


def die_or_sleep(team: Team) -> None:
    if team.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def test_killed_and_endless_workers() -> None:
    killed, endless = try_ranks(2, die_or_sleep, deadline=1.0)
    assert killed.exit_code == -signal.SIGKILL
    assert isinstance(endless.error, TimeoutError)
    assert multiprocessing.active_children() == []
