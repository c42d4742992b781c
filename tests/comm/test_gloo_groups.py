"""The process groups behind a team that talks over sockets: batches have one of their own."""

from __future__ import annotations

import torch
import torch.distributed as dist

from starling.comm.gloo import GlooMailbox
from starling.comm.tags import Channel
from starling.comm.team import Team
from tests.comm.test_transports import numbers, put, tag
from tests.support.ranks import run_ranks


def meet_in_the_group(team: Team) -> list[bool]:
    """What batches are made over travels in a process group of its own: a plain receive there gets it."""
    mailbox = team.links
    assert isinstance(mailbox, GlooMailbox)
    groups = {True: mailbox._groups.background, False: mailbox._groups.training}
    assert groups[True] is not groups[False]
    kinds = [(channel, channel in (Channel.PLAN, Channel.SAMPLE, Channel.FETCH)) for channel in Channel]
    peer = 1 - team.rank
    for channel, _ in kinds:
        put(team, peer, tag(1, 0, channel), numbers(team.rank, peer, channel, 9))
    equal = []
    for channel, behind in kinds:
        rows = torch.empty(9)
        dist.recv(rows, peer, group=groups[behind], tag=tag(1, 0, channel))
        equal.append(torch.equal(rows, numbers(peer, team.rank, channel, 9)))
    return equal


def test_batches_are_made_over_a_process_group_of_their_own() -> None:
    assert run_ranks(2, meet_in_the_group, transport="gloo") == [[True] * len(Channel)] * 2


def close_while_sending(team: Team) -> list[bool]:
    """A stage that prepares batches sends its first message over the group just as the run ends."""
    mailbox, peer = team.links, 1 - team.rank
    assert isinstance(mailbox, GlooMailbox)
    put(team, peer, tag(1), numbers(team.rank, peer, 1, 9))
    outbox = mailbox._outboxes[peer, mailbox._groups.training]
    closes = outbox.close

    def meanwhile() -> None:
        put(team, peer, tag(1, 0, Channel.SAMPLE), numbers(team.rank, peer, 2, 9))
        closes()

    outbox.close = meanwhile  # type: ignore[method-assign]
    coming = [mailbox.receive(peer, label, (9,), torch.float32) for label in (tag(1), tag(1, 0, Channel.SAMPLE))]
    mailbox.close()
    return [torch.equal(rows.wait(), numbers(peer, team.rank, seed, 9)) for seed, rows in enumerate(coming, 1)]


def test_a_message_of_another_thread_may_meet_the_end() -> None:
    assert run_ranks(2, close_while_sending, transport="gloo") == [[True, True]] * 2
