"""The contract by which rows travel between workers: tagged messages from one worker to another.

A message is known by its sender, its receiver and its tag. Asking and sending never wait. Messages of different tags of a `Mailbox`
may be received in any order, while those of one sender, receiver and tag keep theirs. These facts are why nothing that is built on
a mailbox can deadlock, as long as every message that is waited for is sent by somebody who is not waiting for a later one
(docs/engine.md). Links between graphics cards promise less, a `RowMailbox`: there everybody exchanges in the same order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.comm.arrivals import as_they_come
from starling.comm.ledger import Ledger


class RowMailbox(ABC):
    """A worker's end of links for rows whose shapes both sides know. An exchange: ask, send, `depart`, and only then wait."""

    rank: int
    size: int

    @abstractmethod
    def parcel(self, peer: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Memory to fill and then `send` to this peer: where the link is shared memory, the peer will read it in place."""

    @abstractmethod
    def send(self, peer: int, tag: int, parcel: Tensor) -> None:
        """Send a parcel; it belongs to the mailbox from here on and is not to be touched again."""

    @abstractmethod
    def receive(self, peer: int, tag: int, shape: Sequence[int], dtype: torch.dtype) -> AbstractContextManager[Tensor]:
        """A message whose shape both sides know. It may come from the call on, even if nobody waits for it yet.

        Entering the block waits for it; the rows may be read (not kept) until the block is left.
        """

    def receive_each(self, tag: int, shapes: Mapping[int, Sequence[int]], dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
        """(peer, its message) for each of these peers, in their order; all may come from the call on.

        A message is to be read before the next is asked for.
        """
        return _one_by_one(deque((peer, self.receive(peer, tag, shape, dtype)) for peer, shape in shapes.items()))

    def receive_any(self, tag: int, shapes: Mapping[int, Sequence[int]], dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
        """`receive_each` in the order in which messages come; where they come as a group, in that of the peers."""
        return self.receive_each(tag, shapes, dtype)

    def depart(self) -> None:  # noqa: B027 — most links need no telling
        """All of an exchange was asked for and sent: it is under way from here on, if it was not before."""

    @abstractmethod
    def close(self) -> None:
        """Give back sockets, shared memory and files; what was not received is dropped."""

    def send_copy(self, peer: int, tag: int, values: Tensor) -> None:
        """Send values that stay the caller's."""
        parcel = self.parcel(peer, values.shape, values.dtype)
        parcel.copy_(values)
        self.send(peer, tag, parcel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: Any) -> None:
        self.close()


class Mailbox(RowMailbox):
    """All links of a worker, for rows in ordinary memory and for lists. Safe to use from several threads at once.

    What is asked for and sent is under way at once, so that nobody need call `depart`.
    """

    ledger: Ledger

    def receive_any(self, tag: int, shapes: Mapping[int, Sequence[int]], dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
        """`receive_each` in the order in which messages come."""
        coming = {peer: self.receive(peer, tag, shape, dtype) for peer, shape in shapes.items()}
        return as_they_come(coming, self.ledger)

    @abstractmethod
    def send_list(self, peer: int, tag: int, values: NDArray[np.int64]) -> None:
        """Send whole numbers, whose count the receiver does not know."""

    @abstractmethod
    def receive_list(self, peer: int, tag: int) -> NDArray[np.int64]:
        """Wait for whole numbers, any count of them."""

    def ask_for_lists(self, peers: Sequence[int], tag: int) -> Callable[[], dict[int, NDArray[np.int64]]]:
        """The lists of several peers: they may come from this call on, and calling the result waits for them."""
        return lambda: {peer: self.receive_list(peer, tag) for peer in peers}


def _one_by_one(coming: deque[tuple[int, AbstractContextManager[Tensor]]]) -> Iterator[tuple[int, Tensor]]:
    while coming:
        peer, message = coming.popleft()
        with message as rows:
            yield peer, rows
        del message, rows  # not to be kept while the next is waited for
