"""Messages of workers that are gone, or that say nothing: errors that name them, over every transport between processes."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
import torch

from starling.comm.failures import PeerLost, WaitedInVain
from starling.comm.gloo import GlooMailbox, Groups
from starling.comm.team import Team
from tests.comm.test_transports import put, tag
from tests.support.ranks import Transport, run_ranks, try_ranks


def wait_for_the_dead(team: Team) -> str:
    if team.rank == 1:
        for peer in team.peers:
            team.links.receive_list(peer, tag(0))
        os.kill(os.getpid(), signal.SIGKILL)
    team.links.send_list(1, tag(0), np.arange(3))
    try:
        with team.links.receive(1, tag(3), (5,), torch.float32):
            return "it came"
    except PeerLost as error:
        return str(error)


@pytest.mark.parametrize("transport", ["gloo", "auto"])
def test_waiting_for_a_worker_that_was_killed_is_an_error(transport: Transport) -> None:
    outcomes = try_ranks(3, wait_for_the_dead, transport=transport, deadline=20.0)
    assert outcomes[1].exit_code == -signal.SIGKILL
    assert outcomes[0].result == "Worker 1 closed its connection before message 0 of step 3 (forward) had passed."
    assert outcomes[2].result == outcomes[0].result


def wait_for_the_dead_or_the_living(team: Team) -> str:
    """Worker 2 speaks, worker 1 is killed: what came is given, then the loss is told."""
    if team.rank == 1:
        team.links.receive_list(0, tag(0))
        os.kill(os.getpid(), signal.SIGKILL)
    if team.rank == 2:
        put(team, 0, tag(3), torch.ones(5))
        return ""
    coming = team.receive_any(tag(3), {1: (5,), 2: (5,)}, torch.float32)
    peer, rows = next(coming)
    assert peer == 2
    assert torch.equal(rows, torch.ones(5))
    team.links.send_list(1, tag(0), np.arange(3))
    try:
        next(coming)
    except PeerLost as error:
        return str(error)
    return "it came"


@pytest.mark.parametrize("transport", ["gloo", "auto"])
def test_waiting_for_several_of_whom_one_was_killed_is_an_error(transport: Transport) -> None:
    outcomes = try_ranks(3, wait_for_the_dead_or_the_living, transport=transport, deadline=20.0)
    assert outcomes[0].result == "Worker 1 closed its connection before message 0 of step 3 (forward) had passed.", outcomes[0]


def send_to_the_dead(team: Team) -> str:
    if team.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        for call in range(8000):
            put(team, 1, tag(3, call), torch.ones(5))
            time.sleep(0.001)
    except PeerLost as error:
        return str(error)
    return "nobody noticed"


@pytest.mark.parametrize("transport", ["gloo", "auto"])
def test_sending_to_a_worker_that_was_killed_is_an_error(transport: Transport) -> None:
    outcomes = try_ranks(2, send_to_the_dead, transport=transport, deadline=20.0)
    assert "Worker 1 closed its connection" in outcomes[0].result


def wait_in_vain(team: Team) -> str:
    """The peer lives and says nothing."""
    group = torch.distributed.group.WORLD
    assert group is not None
    try:
        if team.rank == 0:
            GlooMailbox(0, 2, Groups(group, group), team.ledger, wait_limit=0.2).receive_list(1, tag(4))
    except WaitedInVain as error:
        return str(error)
    time.sleep(0.6)
    return "lived"


def test_a_message_that_does_not_come_over_gloo() -> None:
    assert run_ranks(2, wait_in_vain, transport="gloo") == [
        "Waited 0.2 s in vain for message 0 of step 4 (forward) of worker 1.",
        "lived",
    ]
