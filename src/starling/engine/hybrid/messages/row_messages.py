"""How rows move between owners and mirrors in one layer of one step, without gradients.

One message for each pair of workers and direction, only rows that are active in the batch, no index. Asking and sending never wait,
so workers may do so in any order. Messages are taken as they come, or where asked for in the order of ranks. Where rows of several
workers are added to one, it is in that order, too: the same bits in every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.comm.team import Team
from starling.engine.hybrid.messages.additions import Additions
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.traffic import Traffic
from starling.kernels.rows import gather_rows
from starling.nn.ops.arrays import has_kernels

Wire = Literal["float32", "bfloat16"]
Coming = Iterator[tuple[int, Tensor]]
"""(worker, rows), as they come."""


@dataclass(eq=False)
class RowMessages:
    """The messages of one layer; `calls` numbers them."""

    team: Team
    traffic: Traffic
    calls: Calls
    layer: int = 0
    spread: bool = False
    """Whether in-edges of a row lie with several workers, as in a vertex-cut."""
    outputs: int = 0
    """In a vertex-cut: how many of the own rows are destinations."""
    wire: Wire = "float32"

    @property
    def senders(self) -> list[int]:
        """The workers whose rows are mirrored here, in the order in which they are waited for where there is one."""
        return [peer for peer in self.team.peers if self.traffic.mirror_count(peer)]

    def send_own(self, rows: Tensor, tag: int) -> None:
        """Send own rows to the workers that mirror them."""
        for peer in self.team.peers:
            if len(self.traffic.send[peer]):
                self.send_own_to(peer, rows, tag)
        self.depart(rows)

    def send_own_to(self, peer: int, rows: Tensor, tag: int) -> None:
        """Send one worker the own rows that it mirrors; the last is followed by `depart`, but in ordinary memory."""
        with self.team.ledger.time("communication"):
            self._send(peer, tag, rows)

    def send_mirrors(self, rows: Tensor, tag: int) -> None:
        """Send mirrors' rows to their owners."""
        for peer in self.senders:
            self.send_block(peer, rows[self.traffic.among_mirrors(peer)], tag)
        self.depart(rows)

    def depart(self, rows: Tensor) -> None:
        """All was asked for and sent that moves in one exchange of rows like these."""
        if self.team.size > 1:
            with self.team.ledger.time("communication"):
                self.team.links_at(rows.device).depart()

    def send_block(self, peer: int, block: Tensor, tag: int) -> None:
        """Send a block of rows to one worker; the last is followed by `depart`."""
        with self.team.ledger.time("communication"):
            parcel = self.team.links_at(block.device).parcel(peer, block.shape, self._wire_type(block.dtype))
            parcel.copy_(block)
            self._post(peer, tag, parcel)

    def receive_mirrors(self, like: Tensor, tag: int, *, counted: bool = True) -> Coming:
        """(worker, its rows that are mirrored here), as they come; they travel from the call on.

        They are as wide as the rows they are `like`, of their type and on their device. Further columns of rows that have come
        already are not `counted` in the ledger.
        """
        counts = {peer: count for peer in self.team.peers if (count := self.traffic.mirror_count(peer))}
        if counted:
            for count in counts.values():
                self.team.ledger.came(self.layer, count)
        return self._receive(counts, like, tag)

    def receive_for_own(self, like: Tensor, tag: int, *, ranked: bool = False) -> Coming:
        """(worker, what it has for the own rows `traffic.send[worker]`), as they come; they travel from the call on.

        With `ranked`, and on devices where messages come as a group, in the order of ranks.
        """
        counts = {peer: count for peer in sorted(self.team.peers) if (count := len(self.traffic.send[peer]))}
        return self._receive(counts, like, tag, ranked=ranked)

    def _receive(self, counts: dict[int, int], like: Tensor, tag: int, *, ranked: bool = False) -> Coming:
        shapes = {peer: (count, like.shape[1]) for peer, count in counts.items()}
        receive = self.team.receive_each if ranked else self.team.receive_any
        return receive(tag, shapes, self._wire_type(like.dtype), like.device)

    def fill_mirrors(self, rows: Tensor, coming: Coming) -> Tensor:
        """Fill the mirrors' places among all rows with what their owners sent (`receive_mirrors`)."""
        for peer, block in coming:
            rows[self.traffic.mirrors_of(peer)] = block
        return rows

    def add_for_own(self, into: Tensor, coming: Coming) -> None:
        """Add what mirrors have gathered (`receive_for_own`) to their own rows in `into`."""
        additions = self.additions_for_own(into) if has_kernels(into) else None
        for peer, block in coming:
            with self.team.ledger.time("communication"):
                if additions is not None:
                    additions.take(peer, block)
                else:
                    into.index_add_(0, self.traffic.sent_to(peer, into.device), block.to(into.dtype))

    def additions_for_own(self, into: Tensor, bounds: NDArray[np.int64] | None = None) -> Additions:
        """What mirrors add to their own rows in `into`, in the order of ranks."""
        return Additions(into, {peer: self.traffic.send[peer] for peer in sorted(self.team.peers)}, bounds)

    def _send(self, peer: int, tag: int, rows: Tensor) -> None:
        index, wire = self.traffic.send[peer], self._wire_type(rows.dtype)
        parcel = self.team.links_at(rows.device).parcel(peer, (len(index), rows.shape[1]), wire)
        if has_kernels(rows) and wire == rows.dtype and rows.dtype != torch.bfloat16:
            gather_rows(rows.detach().contiguous().numpy(), index, parcel.numpy())
        else:
            parcel.copy_(rows.detach()[self.traffic.sent_to(peer, rows.device)])
        self._post(peer, tag, parcel)

    def _post(self, peer: int, tag: int, parcel: Tensor) -> None:
        self.team.ledger.sent(peer, parcel.nbytes)
        self.team.links_at(parcel.device).send(peer, tag, parcel)

    def _wire_type(self, dtype: torch.dtype) -> torch.dtype:
        return torch.bfloat16 if self.wire == "bfloat16" and dtype == torch.float32 else dtype
