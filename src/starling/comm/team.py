"""The workers that compute one run together, as each of them sees it: its number, its mailbox, sums over everybody.

A team of one needs no mailbox. Sums are added in the order of ranks, so that every worker holds the same bits and a run gives the
same numbers again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.comm.ledger import Ledger
from starling.comm.mailbox import Mailbox, RowMailbox
from starling.comm.phase import Phase

ORDINARY = torch.device("cpu")
"""The device whose memory every process has."""
_DIRECT = 1 << 12
"""Up to so many numbers everybody sends all to everybody; beyond, each worker adds up its own slice for all."""


@dataclass(eq=False)
class Team:
    """One worker's view of all of them."""

    rank: int = 0
    size: int = 1
    mailbox: Mailbox | None = None
    """For rows in ordinary memory, and for lists."""
    ledger: Ledger = field(default_factory=lambda: Ledger(1))
    phase: Phase = field(default_factory=Phase)
    """What this worker is doing, for whoever must explain why it stopped."""
    near: frozenset[int] = frozenset()
    """Other workers of this host, whose files this one can read itself; nobody where memory is not shared."""
    device: torch.device = ORDINARY
    """Where this worker computes."""
    device_mailbox: RowMailbox | None = None
    """For rows that lie on such devices, where they have memory of their own; for the thread that trains alone."""

    @property
    def peers(self) -> list[int]:
        """All others, beginning with the next in rank, so that not everybody talks to the same one first."""
        return [(self.rank + step) % self.size for step in range(1, self.size)]

    @property
    def links(self) -> Mailbox:
        """The mailbox of a team of several."""
        assert self.mailbox is not None, "a team of one sends nothing"
        return self.mailbox

    def links_at(self, device: torch.device) -> RowMailbox:
        """The way of rows that lie there."""
        if device.type == "cpu":
            return self.links
        assert self.device_mailbox is not None, "a worker that computes on a device was linked to others' devices"
        return self.device_mailbox

    def close(self) -> None:
        """Close the mailboxes there are."""
        for mailbox in (self.device_mailbox, self.mailbox):
            if mailbox is not None:
                mailbox.close()

    def all_sum(self, tag: int, values: Tensor) -> Tensor:
        """The sum of `values` over all workers, the same bits on each; `tag` stands for two messages of a pair."""
        if self.size == 1:
            return values
        flat = values.detach().contiguous().reshape(-1)
        if len(flat) <= _DIRECT:
            return self._sum_of(tag, flat, [flat] * self.size).reshape(values.shape)
        bounds = [len(flat) * worker // self.size for worker in range(self.size + 1)]
        slices = [flat[start:stop] for start, stop in itertools.pairwise(bounds)]
        mine = self._sum_of(tag, slices[self.rank], slices)
        coming = self.receive_each(tag, {peer: slices[peer].shape for peer in self.peers}, flat.dtype, flat.device)
        self._send_each(tag, [mine] * self.size)
        whole = torch.empty_like(flat)
        whole[bounds[self.rank] : bounds[self.rank + 1]] = mine
        for peer, rows in coming:
            whole[bounds[peer] : bounds[peer + 1]] = rows
        return whole.reshape(values.shape)

    def _sum_of(self, tag: int, own: Tensor, given: Sequence[Tensor]) -> Tensor:
        """Send `given[peer]` to every peer, and add what comes to `own`, in the order of ranks."""
        coming = self.receive_each(tag, dict.fromkeys(sorted(self.peers), own.shape), own.dtype, own.device)
        self._send_each(tag, given)
        total = torch.zeros_like(own)
        for worker in range(self.size):
            total += own if worker == self.rank else next(coming)[1]
        return total

    def receive_each(
        self, tag: int, shapes: Mapping[int, Sequence[int]], dtype: torch.dtype, device: torch.device = ORDINARY
    ) -> Iterator[tuple[int, Tensor]]:
        """`RowMailbox.receive_each`; nothing comes from nobody, so a team of one may ask."""
        return self.links_at(device).receive_each(tag, shapes, dtype) if shapes else iter(())

    def receive_any(
        self, tag: int, shapes: Mapping[int, Sequence[int]], dtype: torch.dtype, device: torch.device = ORDINARY
    ) -> Iterator[tuple[int, Tensor]]:
        """`RowMailbox.receive_any`, likewise."""
        return self.links_at(device).receive_any(tag, shapes, dtype) if shapes else iter(())

    def _send_each(self, tag: int, given: Sequence[Tensor]) -> None:
        """Send `given[peer]` to every peer; with what was asked for under this tag, that is the exchange."""
        links = self.links_at(given[self.rank].device)
        for peer in self.peers:
            links.send_copy(peer, tag, given[peer])
            self.ledger.sent(peer, given[peer].nbytes)
        links.depart()

    def swap_lists(self, tag: int, lists: Sequence[NDArray[Any]]) -> list[NDArray[np.int64]]:
        """Give `lists[peer]` to every peer and get theirs; the own one comes back as it is."""
        got = self.ask(self.peers, tag, dict(enumerate(lists)))
        return [got[worker] if worker in got else np.asarray(lists[worker], np.int64) for worker in range(self.size)]

    def swap_rows(self, tag: int, given: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """`swap_lists` of rows of numbers of any kind, the same everywhere, which travel as their bits, 8 bytes each."""
        kind, shape, bits = given[0].dtype, given[0].shape[1:], np.dtype(f"i{given[0].dtype.itemsize}")
        got = self.swap_lists(tag, [np.ascontiguousarray(rows).reshape(-1).view(bits) for rows in given])
        return [flat.astype(bits).view(kind).reshape(-1, *shape) if shape else flat.astype(bits).view(kind) for flat in got]

    def ask(self, peers: Sequence[int], tag: int, lists: Mapping[int, NDArray[Any]]) -> dict[int, NDArray[np.int64]]:
        """Give `lists[peer]` to each of `peers`, and get theirs."""
        if not peers:
            return {}
        theirs = self.links.ask_for_lists(peers, tag)
        for peer in peers:
            self.send_list(peer, tag, lists[peer])
        return theirs()

    def send_list(self, peer: int, tag: int, values: NDArray[Any]) -> None:
        """Send whole numbers, and count them."""
        numbers = np.ascontiguousarray(values, np.int64)
        self.links.send_list(peer, tag, numbers)
        self.ledger.sent(peer, numbers.nbytes)

    def all_lists(self, tag: int, values: NDArray[Any]) -> list[NDArray[np.int64]]:
        """Everybody's whole numbers, by rank."""
        return self.swap_lists(tag, [values] * self.size)
