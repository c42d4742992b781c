"""Form a team: find out who is where, and link each pair by the fastest way there is.

Two workers of one host share memory; any others talk over torch.distributed. Where workers compute on devices with memory of their
own, rows that lie there have a way of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Literal

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from starling.comm.gloo import GlooMailbox, Groups
from starling.comm.ledger import Ledger
from starling.comm.mailbox import Mailbox
from starling.comm.neighbours import link_neighbours
from starling.comm.ordered import OrderedMailbox
from starling.comm.shared_memory import SharedMemoryMailbox
from starling.comm.team import ORDINARY, Team

Transport = Literal["auto", "gloo"]


def form_team(
    rank: int,
    size: int,
    store: Store,
    *,
    transport: Transport = "auto",
    device: torch.device = ORDINARY,
    backend: str = "nccl",
    wait_limit: float = 600.0,
) -> Team:
    """Join the team that meets at `store`; every worker calls this once, at about the same time.

    `transport` "gloo" shares no memory with anybody. Rows on a `device` that is not the processor travel over `backend` of
    torch.distributed. `wait_limit` is how many seconds a worker waits for a message whose sender is connected. Where some pair
    needs torch.distributed and the caller has set it up, for itself and with any backend, the team has groups of its own there.
    """
    ledger = Ledger(size)
    if size == 1:
        return Team(ledger=ledger, device=device)
    shared = transport == "auto"
    found = link_neighbours(rank, size, PrefixStore("starling/team", store), wanted=shared, wait_limit=wait_limit)
    near = SharedMemoryMailbox(rank, size, found.links, ledger, wait_limit=wait_limit)
    team = Team(rank, size, near, ledger, near=frozenset(found.links), device=device)
    if not found.are_all:
        # by everybody, though this one may not need them; the second is a group beside the first
        groups = Groups(*(_sockets(rank, size, store, wait_limit) for _ in range(2)))
        far = GlooMailbox(rank, size, groups, ledger, wait_limit=wait_limit)
        team.mailbox = SwitchMailbox(near, far, found.links.keys()) if found.links else far
    if device.type != "cpu":
        if not dist.is_initialized():
            _sockets(rank, size, store, wait_limit)
        apart = dist.new_group(backend=backend, timeout=timedelta(seconds=wait_limit))
        team.device_mailbox = OrderedMailbox(rank, size, apart, ledger, device, wait_limit=wait_limit)
    return team


def _sockets(rank: int, size: int, store: Store, wait_limit: float) -> dist.ProcessGroup:
    """A group of Gloo's: the first there is, or one beside those of the caller, whose messages it must not meet."""
    limit = timedelta(seconds=wait_limit)
    if dist.is_initialized():
        beside = dist.new_group(backend="gloo", timeout=limit)
        assert isinstance(beside, dist.ProcessGroup)
        return beside
    dist.init_process_group("gloo", store=PrefixStore("starling/gloo", store), rank=rank, world_size=size, timeout=limit)
    assert dist.group.WORLD is not None
    return dist.group.WORLD


class SwitchMailbox(Mailbox):
    """Two mailboxes as one: `near` for the peers of this host, `far` for all others."""

    def __init__(self, near: Mailbox, far: Mailbox, neighbours: Collection[int]) -> None:
        self.rank, self.size, self.ledger = near.rank, near.size, near.ledger
        self._near, self._far = near, far
        self._ways = [near if peer in neighbours else far for peer in range(near.size)]

    def parcel(self, peer: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """As the peer's link has it."""
        return self._ways[peer].parcel(peer, shape, dtype)

    def send(self, peer: int, tag: int, parcel: Tensor) -> None:
        """Over the peer's link."""
        self._ways[peer].send(peer, tag, parcel)

    def receive(self, peer: int, tag: int, shape: Sequence[int], dtype: torch.dtype) -> AbstractContextManager[Tensor]:
        """Over the peer's link."""
        return self._ways[peer].receive(peer, tag, shape, dtype)

    def receive_any(self, tag: int, shapes: Mapping[int, Sequence[int]], dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
        """As their link has it where all have the same, else by a thread for each."""
        ways = {self._ways[peer] for peer in shapes}
        return ways.pop().receive_any(tag, shapes, dtype) if len(ways) == 1 else super().receive_any(tag, shapes, dtype)

    def send_list(self, peer: int, tag: int, values: NDArray[np.int64]) -> None:
        """Over the peer's link."""
        self._ways[peer].send_list(peer, tag, values)

    def receive_list(self, peer: int, tag: int) -> NDArray[np.int64]:
        """Over the peer's link."""
        return self._ways[peer].receive_list(peer, tag)

    def ask_for_lists(self, peers: Sequence[int], tag: int) -> Callable[[], dict[int, NDArray[np.int64]]]:
        """Over each peer's link."""
        near, far = (
            way.ask_for_lists([peer for peer in peers if self._ways[peer] is way], tag) for way in (self._near, self._far)
        )
        return lambda: near() | far()

    def close(self) -> None:
        """Close both."""
        self._near.close()
        self._far.close()
