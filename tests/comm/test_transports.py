"""What a mailbox promises, checked over every transport: threads, Gloo's sockets, shared memory ("auto", on one host)."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from starling.comm.failures import PeerLost
from starling.comm.gloo import GlooMailbox
from starling.comm.shared_memory import SharedMemoryMailbox
from starling.comm.switch import form_team
from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from tests.support.ranks import Transport, run_ranks, try_ranks

TRANSPORTS: list[Transport] = ["threads", "gloo", "auto"]
DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
]

over_transports = pytest.mark.parametrize("transport", TRANSPORTS)
over_sizes = pytest.mark.parametrize("size", [2, 4])


def tag(step: int, call: int = 0, channel: Channel = Channel.FORWARD) -> int:
    return make_tag(channel, step, call)


def numbers(sender: int, receiver: int, seed: int, count: int) -> torch.Tensor:
    """What this sender says to this receiver; both can tell."""
    made = torch.Generator().manual_seed(sender * 1009 + receiver * 31 + seed)
    return torch.randn(count, generator=made)


def put(team: Team, peer: int, label: int, values: torch.Tensor) -> None:
    parcel = team.links.parcel(peer, values.shape, values.dtype)
    assert parcel.shape == values.shape
    assert parcel.dtype == values.dtype
    parcel.copy_(values)
    team.links.send(peer, label, parcel)


def check(team: Team, peer: int, label: int, expected: torch.Tensor) -> None:
    with team.links.receive(peer, label, expected.shape, expected.dtype) as rows:
        assert rows.dtype == expected.dtype
        assert torch.equal(rows, expected)


def in_order(team: Team) -> None:
    for number in range(50):
        for peer in team.peers:
            put(team, peer, tag(0), numbers(team.rank, peer, number, 1 + number))
    for peer in team.peers:
        for number in range(50):
            check(team, peer, tag(0), numbers(peer, team.rank, number, 1 + number))


def last_tag_first(team: Team) -> None:
    for call in range(20):
        for peer in team.peers:
            put(team, peer, tag(call, call), numbers(team.rank, peer, call, 100))
    for call in reversed(range(20)):
        for peer in team.peers:
            check(team, peer, tag(call, call), numbers(peer, team.rank, call, 100))


def nobody_receives_until_all_is_sent(team: Team) -> None:
    """More messages than a socket holds: if a sender waited for its receiver, everybody would wait for ever."""
    for call in range(1000):
        for peer in team.peers:
            put(team, peer, tag(0, call), torch.tensor([team.rank, call]))
    for call in range(1000):
        for peer in team.peers:
            check(team, peer, tag(0, call), torch.tensor([peer, call]))


def zero_rows(team: Team) -> None:
    for shape in ((0, 7), (3, 0), (0,)):
        for peer in team.peers:
            put(team, peer, tag(0), torch.ones(shape))
    for peer in team.peers:
        put(team, peer, tag(0), torch.ones(2, 2))
    for peer in team.peers:
        for shape in ((0, 7), (3, 0), (0,), (2, 2)):
            check(team, peer, tag(0), torch.ones(shape))


def every_dtype(team: Team) -> None:
    for call, dtype in enumerate(DTYPES):
        for peer in team.peers:
            put(team, peer, tag(1, call), (numbers(team.rank, peer, call, 33) * 100).to(dtype).reshape(11, 3))
    for call, dtype in enumerate(DTYPES):
        for peer in team.peers:
            check(team, peer, tag(1, call), (numbers(peer, team.rank, call, 33) * 100).to(dtype).reshape(11, 3))


def lists(team: Team) -> None:
    bounds = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    for length in (0, 1, 1000, 0):
        for peer in team.peers:
            team.links.send_list(peer, tag(0), np.arange(length, dtype=np.int64) * (team.rank + 1))
    for peer in team.peers:
        team.links.send_list(peer, tag(0), bounds)
    for peer in team.peers:
        for length in (0, 1, 1000, 0):
            got = team.links.receive_list(peer, tag(0))
            assert got.dtype == np.int64
            assert np.array_equal(got, np.arange(length) * (peer + 1))
        got = team.links.receive_list(peer, tag(0))
        assert np.array_equal(got, bounds)
        got += 1  # a list is the receiver's own


def large(team: Team) -> None:
    """32 MB each way at once."""
    count = 8_000_000
    for peer in team.peers:
        put(team, peer, tag(0), torch.arange(count, dtype=torch.float32) + peer)
    for peer in team.peers:
        check(team, peer, tag(0), torch.arange(count, dtype=torch.float32) + team.rank)


def many_threads(team: Team) -> None:
    """Eight conversations at once, each with everybody, in tags of its own."""
    errors: list[BaseException] = []

    def talk(thread: int) -> None:
        wait = random.Random(team.rank * 8 + thread)
        try:
            for step in range(15):
                time.sleep(wait.random() * 0.002)
                for peer in team.peers:
                    put(team, peer, tag(step, thread), numbers(team.rank, peer, step * 8 + thread, 1 + 97 * thread))
                for peer in team.peers:
                    check(team, peer, tag(step, thread), numbers(peer, team.rank, step * 8 + thread, 1 + 97 * thread))
                values = np.full(thread, step)
                for got in team.all_lists(tag(step, thread, Channel.PLAN), values):
                    assert np.array_equal(got, values)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=talk, args=(thread,)) for thread in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors:
        raise errors[0]


def counted(team: Team) -> None:
    """Bytes of sums and lists are counted for each peer, and time in which nothing had come."""
    team.ledger.close()
    if team.rank == 0:
        time.sleep(0.05)
    team.all_sum(tag(0), torch.ones(10))
    team.swap_lists(tag(1), [np.arange(peer) for peer in range(team.size)])
    accounts = team.ledger.close()
    assert accounts.bytes_to == tuple(0 if peer == team.rank else 40 + 8 * peer for peer in range(team.size))
    assert accounts.waiting > 0


def sums(team: Team) -> None:
    """The same bits everywhere: added in the order of ranks, whole or slice by slice."""
    for step, count in enumerate([0, 1, 2, 3, 4096, 4097, 100_003]):
        expected = numbers(0, 0, step, count)
        for rank in range(1, team.size):
            expected = expected + numbers(rank, 0, step, count)
        assert torch.equal(team.all_sum(tag(step), numbers(team.rank, 0, step, count)), expected)


def random_talk(team: Team) -> None:
    for seed in range(4):
        talk_at_random(team, seed, 80)


def whoever_comes_first(team: Team) -> None:
    """The first worker asks for all, and the next one speaks only when it was told that the one after it has been heard."""
    label, word = tag(2), tag(3)
    shapes = {peer: (peer, 3) for peer in team.peers}
    if team.rank == 0:
        heard = []
        for peer, rows in team.receive_any(label, shapes, torch.float32):
            assert torch.equal(rows, numbers(peer, 0, 5, 3 * peer).reshape(peer, 3))
            heard.append(peer)
            if peer > 1:
                team.send_list(peer - 1, word, np.arange(1))
        assert heard == list(range(team.size - 1, 0, -1))
    else:
        if team.rank < team.size - 1:
            team.links.receive_list(0, word)
        put(team, 0, label, numbers(team.rank, 0, 5, 3 * team.rank).reshape(team.rank, 3))


def whoever_comes_first_keeps_tags_apart(team: Team) -> None:
    """Messages of later tags are here already, and some have no rows."""
    for call in (2, 1, 0):
        for peer in team.peers:
            put(team, peer, tag(4, call), numbers(team.rank, peer, call, 40 * call).reshape(-1, 4))
    for call in range(3):
        shapes = dict.fromkeys(team.peers, (10 * call, 4))
        got = {peer: rows.clone() for peer, rows in team.receive_any(tag(4, call), shapes, torch.float32)}
        assert got.keys() == set(team.peers)
        for peer, rows in got.items():
            assert torch.equal(rows, numbers(peer, team.rank, call, 40 * call).reshape(-1, 4))


PROMISES: list[Callable[[Team], None]] = [
    *(in_order, last_tag_first, nobody_receives_until_all_is_sent, zero_rows, every_dtype),
    *(lists, large, many_threads, counted, sums),
    *(whoever_comes_first, whoever_comes_first_keeps_tags_apart),
]


def keep_all_promises(team: Team) -> None:
    """One after the other in one team, since starting processes is what costs; workers need not be in the same one."""
    for promise in (*PROMISES, random_talk):
        try:
            promise(team)
        except BaseException as error:
            error.add_note(f"This promise was not kept: {promise.__name__}.")
            raise


@over_transports
@over_sizes
def test_promises(size: int, transport: Transport) -> None:
    before = sorted(Path("/dev/shm").glob("*"))
    run_ranks(size, keep_all_promises, transport=transport)
    assert [path for path in sorted(Path("/dev/shm").glob("*")) if path not in before and "starling" in path.name] == []


def test_a_team_of_one_adds_nothing() -> None:
    sums(Team())
    assert list(Team().receive_any(tag(0), {}, torch.float32)) == []


def kinds(team: Team) -> str:
    return type(team.mailbox).__name__


def test_each_transport_is_what_it_is_called() -> None:
    assert run_ranks(2, kinds, transport="auto") == [SharedMemoryMailbox.__name__] * 2
    assert run_ranks(2, kinds, transport="gloo") == [GlooMailbox.__name__] * 2
    assert run_ranks(1, kinds) == ["NoneType"]


def talk_at_random(team: Team, seed: int, messages: int) -> None:
    """Everybody knows the whole plan; delays are random, sends and receives of each worker run in threads of their own."""
    plan = random.Random(seed)
    script = [
        (*plan.sample(range(team.size), 2), tag(plan.randrange(3)), plan.choice([0, 1, 5, 1000, 70_000]))
        for _ in range(messages)
    ]
    delays = random.Random(seed * 131 + team.rank)
    errors: list[BaseException] = []

    def receive(peer: int, label: int) -> None:
        try:
            for number, (sender, receiver, of, count) in enumerate(script):
                if (sender, receiver, of) == (peer, team.rank, label):
                    time.sleep(delays.choice([0, 0, 0.001, 0.004]))
                    check(team, peer, label, numbers(sender, receiver, number, count))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=receive, args=(peer, tag(step))) for peer in team.peers for step in range(3)]
    for each in threads:
        each.start()
    for number, (sender, receiver, label, count) in enumerate(script):
        if sender == team.rank:
            time.sleep(delays.choice([0, 0, 0.002]))
            put(team, receiver, label, numbers(sender, receiver, number, count))
    for each in threads:
        each.join()
    if errors:
        raise errors[0]


def leave_early(team: Team) -> bool:
    """Worker 0 says something and leaves at once; what it said must arrive."""
    if team.rank == 0:
        put(team, 1, tag(0), torch.arange(100_000))
        return True
    time.sleep(0.3)
    with team.links.receive(0, tag(0), (100_000,), torch.int64) as rows:
        return torch.equal(rows, torch.arange(100_000))


@pytest.mark.parametrize("transport", ["gloo", "auto"])
def test_last_words_arrive(transport: Transport) -> None:
    assert run_ranks(2, leave_early, transport=transport) == [True, True]


def ask_and_let_the_sender_go(team: Team) -> bool:
    """What was asked for travels though nobody waits for it: the sender is gone before the receiver looks."""
    expected = torch.arange(500_000)
    if team.rank == 1:
        team.links.receive_list(0, tag(1))
        put(team, 0, tag(0), expected)
        team.links.close()
        os.kill(os.getpid(), signal.SIGKILL)
    asked = team.links.receive(1, tag(0), expected.shape, expected.dtype)
    team.links.send_list(1, tag(1), np.arange(1))
    with pytest.raises(PeerLost):
        team.links.receive_list(1, tag(2))
    with asked as rows:
        return torch.equal(rows, expected)


@pytest.mark.parametrize("transport", ["gloo", "auto"])
def test_a_message_comes_when_it_is_asked_for(transport: Transport) -> None:
    outcomes = try_ranks(2, ask_and_let_the_sender_go, transport=transport, deadline=20.0)
    assert outcomes[0].result is True, outcomes[0]


def form_a_mixed_team(team: Team, folder: str) -> str:
    """Workers 0 and 1 share memory, worker 2 will not."""
    from torch.distributed import FileStore  # type: ignore[attr-defined]

    store = FileStore(f"{folder}/store", team.size)
    mixed = form_team(team.rank, team.size, store, transport="gloo" if team.rank == 2 else "auto")
    in_order(mixed)
    lists(mixed)
    zero_rows(mixed)
    whoever_comes_first(mixed)
    whoever_comes_first_keeps_tags_apart(mixed)
    assert torch.equal(mixed.all_sum(tag(1), torch.full((5000,), float(team.rank))), torch.full((5000,), 3.0))
    mixed.links.close()
    return type(mixed.links).__name__


def test_each_pair_has_its_own_way(tmp_path: Path) -> None:
    assert run_ranks(3, form_a_mixed_team, str(tmp_path), transport="gloo") == ["SwitchMailbox", "SwitchMailbox", "GlooMailbox"]


def talk_beside_the_caller(team: Team, folder: str) -> bool:
    """The caller's own messages and sums have the tags and the moments that the team's have."""
    from torch.distributed import FileStore  # type: ignore[attr-defined]

    own = form_team(team.rank, team.size, FileStore(f"{folder}/store", team.size), transport="gloo")
    assert isinstance(own.links, GlooMailbox)
    peer, theirs, ours = 1 - team.rank, torch.full((4,), 7.0), torch.full((4,), 9.0)
    coming, got = own.links.receive(peer, tag(0), (4,), torch.float32), torch.empty(4)
    asked = dist.irecv(got, peer, tag=tag(0))  # both before anything is sent
    sent = dist.isend(theirs, peer, tag=tag(0))
    put(own, peer, tag(0), ours)
    total = torch.ones(3)
    dist.all_reduce(total)
    with coming as came:
        same = torch.equal(came, ours)
    assert asked is not None
    assert sent is not None
    asked.wait()
    sent.wait()
    own.links.close()
    return same and torch.equal(got, theirs) and total.tolist() == [2.0] * 3


def test_a_caller_that_has_set_up_torch_distributed(tmp_path: Path) -> None:
    assert run_ranks(2, talk_beside_the_caller, str(tmp_path), transport="gloo") == [True, True]
