"""Rows between devices that have memory of their own: exchanges in one order, over links that know no tags.

NCCL matches the messages of a pair by their order and lets one group of messages travel after the other. So the messages of an
exchange are gathered until it departs and then begin as one group (`batch_isend_irecv`), whose messages move side by side. Every
worker must make the same exchanges in the same order, which those of the thread that trains are; nobody else may use the mailbox.
A group is the same exchange everywhere, so every message in it has its other end in the same group of its peer: none waits for a
message of a later exchange, and none can deadlock (docs/engine.md).

Any backend of torch.distributed will do. Tests run the same code over Gloo, with equal tags, so that there too order is everything.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from starling.comm.failures import PeerLost, WaitedInVain
from starling.comm.ledger import Ledger
from starling.comm.mailbox import RowMailbox
from starling.comm.tags import describe_tag


class OrderedMailbox(RowMailbox):
    """A worker's end of its links over a process group of its own, whose ranks are the workers' numbers.

    The group's timeout, `wait_limit` for messages of errors, says how long a message may take. Over NCCL nobody waits here: work
    that reads a message is queued on the device behind it, and is not begun before it has come.
    """

    def __init__(
        self, rank: int, size: int, group: dist.ProcessGroup, ledger: Ledger, device: torch.device, *, wait_limit: float = 600.0
    ) -> None:
        self.rank, self.size = rank, size
        self._group, self._ledger, self._device, self._wait_limit = group, ledger, device, wait_limit
        self._gathered: _Exchange | None = None
        self._under_way: deque[_Exchange] = deque()
        # NCCL forms its communicator in the first call, in which all must take part; an exchange may be of some.
        dist.all_reduce(torch.zeros(1, device=device), group=group)

    def parcel(self, peer: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Memory of the device."""
        return torch.empty(tuple(shape), dtype=dtype, device=self._device)

    def send(self, peer: int, tag: int, parcel: Tensor) -> None:
        """Leave with the exchange; nothing travels if there are no numbers, since the receiver knows the shape."""
        if parcel.numel():
            self._exchange(tag).operations.append(dist.P2POp(dist.isend, parcel, peer, self._group))

    def receive(self, peer: int, tag: int, shape: Sequence[int], dtype: torch.dtype) -> _Coming:
        """Come with the exchange, into memory of its own."""
        rows, exchange = self.parcel(peer, shape, dtype), self._exchange(tag)
        if rows.numel():
            exchange.operations.append(dist.P2POp(dist.irecv, rows, peer, self._group))
        return _Coming(self, exchange, rows)

    def depart(self) -> None:
        """Begin all messages of the exchange as one group."""
        exchange, self._gathered = self._gathered, None
        if exchange is not None and exchange.operations:
            try:
                exchange.works = dist.batch_isend_irecv(exchange.operations)
            except RuntimeError as error:
                raise PeerLost(None, exchange.tag) from error
            self._under_way.append(exchange)

    def close(self) -> None:
        """See off what was sent; the process group stays its maker's."""
        while self._under_way:
            self._under_way.popleft().wait(self._wait_limit)

    def wait_for(self, exchange: _Exchange) -> None:
        """Wait for an exchange, and so for those before it: they end in the order in which they began."""
        if exchange is self._gathered:
            raise ValueError(f"{describe_tag(exchange.tag)} is waited for before its exchange has departed")
        while exchange in self._under_way:
            with self._ledger.time("waiting"):
                self._under_way.popleft().wait(self._wait_limit)

    def _exchange(self, tag: int) -> _Exchange:
        """The exchange that is being gathered; two at once would not be the same group on every worker."""
        if self._gathered is None:
            self._gathered = _Exchange(tag)
        elif self._gathered.tag != tag:
            raise ValueError(f"{describe_tag(tag)} begins before {describe_tag(self._gathered.tag)} has departed")
        return self._gathered


@dataclass(eq=False)
class _Exchange:
    """The messages that a worker sends and receives under one tag; `operations` keep their memory until all have passed."""

    tag: int
    operations: list[dist.P2POp] = field(default_factory=list)
    works: list[dist.Work] = field(default_factory=list)

    def wait(self, limit: float) -> None:
        """Until all have passed, or over NCCL until later work of the device is queued behind them."""
        each = len(self.works) == len(self.operations)  # NCCL answers for the group as a whole
        for number, work in enumerate(self.works):
            peer, began = self.operations[number].group_peer if each else None, time.monotonic()
            try:
                work.wait()
            except RuntimeError as error:
                if peer is not None and time.monotonic() - began >= limit:
                    raise WaitedInVain(peer, self.tag, limit) from error
                raise PeerLost(peer, self.tag) from error


class _Coming(AbstractContextManager[Tensor]):
    """A message of an exchange."""

    def __init__(self, mailbox: OrderedMailbox, exchange: _Exchange, rows: Tensor) -> None:
        self._mailbox, self._exchange, self._rows = mailbox, exchange, rows

    def __enter__(self) -> Tensor:
        """The rows, once they are here."""
        self._mailbox.wait_for(self._exchange)
        return self._rows

    def __exit__(self, *failure: object) -> None:
        """The rows go when nobody holds them."""
