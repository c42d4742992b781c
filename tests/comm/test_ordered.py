"""Exchanges in one order over links that know no tags: the code that is for NCCL between graphics cards, here over Gloo."""

from __future__ import annotations

import os
import random
import signal
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from starling.comm.failures import PeerLost, WaitedInVain
from starling.comm.ledger import Ledger
from starling.comm.ordered import OrderedMailbox
from starling.comm.team import ORDINARY, Team
from tests.comm.test_transports import DTYPES, numbers, tag
from tests.support.card import CARD, a_card_for
from tests.support.ranks import run_ranks, try_ranks


def ordered(team: Team, wait_limit: float = 30.0) -> OrderedMailbox:
    """A mailbox of all workers for rows in ordinary memory: nothing in it depends on where they lie."""
    group = dist.new_group(backend="gloo", timeout=timedelta(seconds=wait_limit))
    assert isinstance(group, dist.ProcessGroup)
    return OrderedMailbox(team.rank, team.size, group, team.ledger, ORDINARY, wait_limit=wait_limit)


def exchange_at_random(team: Team, links: OrderedMailbox, seed: int) -> None:
    """Everybody knows the whole plan: in each exchange some pairs talk, some workers only send, some do nothing."""
    plan, delays = random.Random(seed), random.Random(seed * 131 + team.rank)
    for step in range(60):
        talks = {
            (sender, receiver): plan.choice([0, 1, 7, 5000])
            for sender in range(team.size)
            for receiver in range(team.size)
            if sender != receiver and plan.random() < 0.5
        }
        time.sleep(delays.choice([0, 0, 0.002]))
        expected = {s: numbers(s, r, step, count) for (s, r), count in talks.items() if r == team.rank}
        coming = links.receive_each(tag(step), {s: rows.shape for s, rows in expected.items()}, torch.float32)
        for (sender, receiver), count in talks.items():
            if sender == team.rank:
                links.send_copy(receiver, tag(step), numbers(sender, receiver, step, count))
        links.depart()
        if plan.random() < 0.8:  # sometimes nobody looks before the next exchange
            for peer, rows in coming:
                assert torch.equal(rows, expected[peer])


def every_dtype(team: Team, links: OrderedMailbox) -> None:
    for call, dtype in enumerate(DTYPES):
        coming = links.receive_each(tag(1, call), dict.fromkeys(team.peers, (11, 3)), dtype)
        for peer in team.peers:
            links.send_copy(peer, tag(1, call), (numbers(team.rank, peer, call, 33) * 100).to(dtype).reshape(11, 3))
        links.depart()
        for peer, rows in coming:
            assert torch.equal(rows, (numbers(peer, team.rank, call, 33) * 100).to(dtype).reshape(11, 3))


def refuse_disorder(team: Team, links: OrderedMailbox) -> None:
    """What would not be the same group on every worker is an error here, not a wait for ever on some card."""
    asked = links.receive(team.peers[0], tag(7), (2,), torch.float32)
    with pytest.raises(ValueError, match=r"message 0 of step 7 \(forward\) is waited for before its exchange has departed"):
        asked.__enter__()
    with pytest.raises(ValueError, match=r"message 0 of step 8 \(forward\) begins before message 0 of step 7 \(forward\) has"):
        links.send_copy(team.peers[0], tag(8), torch.ones(2))


def keep_order(team: Team) -> None:
    links = ordered(team)
    for seed in range(4):
        exchange_at_random(team, links, seed)
    every_dtype(team, links)
    links.close()
    refuse_disorder(team, ordered(team))


@pytest.mark.parametrize("size", [2, 4])
def test_exchanges_pass_in_order(size: int) -> None:
    run_ranks(size, keep_order, transport="gloo")


def last_words(team: Team) -> bool:
    """A worker that only sends may leave; what it sent must arrive."""
    links = ordered(team)
    coming = links.receive_each(tag(0), {0: (100_000,)} if team.rank else {}, torch.float32)
    if team.rank == 0:
        for peer in team.peers:
            links.send_copy(peer, tag(0), numbers(0, peer, 0, 100_000))
    links.depart()
    time.sleep(0.3 * team.rank)
    came = all(torch.equal(rows, numbers(0, team.rank, 0, 100_000)) for _, rows in coming)
    links.close()
    return came


def test_what_was_sent_arrives_before_the_mailbox_closes() -> None:
    assert run_ranks(3, last_words, transport="gloo") == [True] * 3


def sum_on_cards(team: Team) -> None:
    """The same bits everywhere, added in the order of ranks, whole or slice by slice; lists go the ordinary way meanwhile."""
    with a_card_for(team) as carded:
        for step, count in enumerate([0, 1, 3, 4096, 4097, 10_003]):
            expected = numbers(0, 0, step, count)
            for rank in range(1, team.size):
                expected = expected + numbers(rank, 0, step, count)
            mine = numbers(team.rank, 0, step, count)
            total = carded.all_sum(tag(step), mine.to(CARD))
            assert total.device == CARD
            assert torch.equal(total.cpu(), expected)
            assert torch.equal(carded.all_sum(tag(step), mine), expected)  # in ordinary memory, under the same tag


@pytest.mark.parametrize("size", [2, 4])
def test_sums_of_rows_on_cards(size: int) -> None:
    run_ranks(size, sum_on_cards, transport="gloo")


def wait_for_the_dead(team: Team) -> str:
    links = ordered(team)
    if team.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        asked = links.receive(1, tag(3), (5,), torch.float32)
        links.depart()
        with asked:
            return "it came"
    except PeerLost as error:
        return str(error)


def test_waiting_for_a_worker_that_was_killed_is_an_error() -> None:
    outcomes = try_ranks(2, wait_for_the_dead, transport="gloo", deadline=20.0)
    assert outcomes[0].result.endswith(" closed its connection before message 0 of step 3 (forward) had passed.")


def wait_in_vain(team: Team) -> str:
    links = ordered(team, 0.3)
    asked = links.receive(1 - team.rank, tag(4), (5,), torch.float32)
    if team.rank == 1:
        time.sleep(1.0)
        return "lived"
    links.depart()
    try:
        with asked:
            return "it came"
    except WaitedInVain as error:
        return str(error)


def test_a_message_that_does_not_come() -> None:
    found = run_ranks(2, wait_in_vain, transport="gloo")
    assert found == ["Waited 0.3 s in vain for message 0 of step 4 (forward) of worker 1.", "lived"]


def test_a_team_without_links_between_devices_sends_nothing_there() -> None:
    with pytest.raises(AssertionError, match="was linked to others' devices"):
        Team(0, 2, ledger=Ledger(2)).links_at(CARD)
