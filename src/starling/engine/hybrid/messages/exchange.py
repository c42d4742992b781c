"""The exchange of a team: values go from owners to mirrors, gradients and partial results from mirrors to owners.

One message for each pair of workers and direction, only rows that are active in the batch, no index. Every operation asks, sends,
and then waits; asking and sending never wait, so workers may reach it in any order. Messages are taken as they come, those of a
push in the order of ranks. Where partial results or gradients of several workers meet in one row, they are added in that order,
too: the same bits in every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.comm.team import Team
from starling.engine.hybrid.messages.additions import Additions
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.push_softmax import SoftmaxPush
from starling.engine.hybrid.messages.pushes import MaxPush, SumPush
from starling.engine.hybrid.messages.traffic import Traffic
from starling.kernels.rows import gather_rows
from starling.nn.ops.arrays import applied, has_kernels

Wire = Literal["float32", "bfloat16"]


@dataclass(eq=False)
class TeamExchange:
    """The exchange of one layer of one step.

    `known` are input rows that never change, own and mirrors', so that pulling the own ones needs no message.
    """

    team: Team
    traffic: Traffic
    calls: Calls
    layer: int = 0
    spread: bool = False
    outputs: int = 0
    """In a vertex-cut: how many of the own rows are destinations."""
    wire: Wire = "float32"
    known: tuple[Tensor, Tensor] | None = field(default=None, repr=False)

    @property
    def workers(self) -> int:
        """The team's."""
        return self.team.size

    @property
    def senders(self) -> list[int]:
        """The workers whose rows are mirrored here, in the order in which they are waited for where there is one."""
        return [peer for peer in self.team.peers if self.traffic.mirror_count(peer)]

    def pull(self, rows: Tensor) -> Tensor:
        """Own rows → own rows and mirrors. Given the destinations alone, which come first, the other rows are zero."""
        if self.known is not None and rows is self.known[0]:
            return torch.cat(self.known)
        result: Tensor = applied(_Pull, self.traffic.all_own(rows), self, self.calls.forward())
        return result

    def push_sum(self, partial: Tensor) -> Tensor:
        """Partial sums of own rows and mirrors → whole sums of the own destinations."""
        return SumPush(self).of_all(partial) if self.spread else partial

    def push_max(self, partial: Tensor) -> Tensor:
        """Partial maxima of own rows and mirrors → whole maxima of the own destinations."""
        return MaxPush(self).of_all(partial) if self.spread else partial

    def push_softmax(self, partial: Tensor, log_sum: Tensor, node_columns: int) -> Tensor:
        """Softmax-weighted sums over the edges here, with their log-sums → over all edges of the own destinations."""
        return SoftmaxPush(self, (partial, log_sum), node_columns).of_all(partial, log_sum) if self.spread else partial

    def all_sum(self, values: Tensor) -> Tensor:
        """Sums over all workers, whose gradients are summed too."""
        result: Tensor = applied(_AllSum, values, self, self.calls.forward())
        return result

    # ---- moving rows, without gradients ----

    def send_own(self, rows: Tensor, tag: int) -> None:
        """Send own rows to the workers that mirror them."""
        with self.team.ledger.time("communication"):
            for peer in self.team.peers:
                if len(self.traffic.send[peer]):
                    self._send(peer, tag, rows)
            self.depart(rows)

    def send_own_to(self, peer: int, rows: Tensor, tag: int) -> None:
        """Send one worker the own rows that it mirrors; in ordinary memory, where nothing need `depart`."""
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
            self.team.links_at(rows.device).depart()

    def send_block(self, peer: int, block: Tensor, tag: int) -> None:
        """Send a block of rows to one worker; the last is followed by `depart`."""
        with self.team.ledger.time("communication"):
            parcel = self.team.links_at(block.device).parcel(peer, block.shape, self._wire_type(block.dtype))
            parcel.copy_(block)
            self._post(peer, tag, parcel)

    def receive_mirrors(self, like: Tensor, tag: int, *, counted: bool = True) -> Iterator[tuple[int, Tensor]]:
        """(worker, its rows that are mirrored here), as they come; they travel from the call on.

        They are as wide as the rows they are `like`, of their type and on their device. Further columns of rows that have come
        already are not `counted` in the ledger.
        """
        counts = {peer: count for peer in self.team.peers if (count := self.traffic.mirror_count(peer))}
        if counted:
            for count in counts.values():
                self.team.ledger.came(self.layer, count)
        return self._receive(counts, like, tag)

    def receive_for_own(self, like: Tensor, tag: int, *, ranked: bool = False) -> Iterator[tuple[int, Tensor]]:
        """(worker, what it has for the own rows `traffic.send[worker]`), as they come; they travel from the call on.

        With `ranked`, and on devices where messages come as a group, in the order of ranks.
        """
        counts = {peer: count for peer in sorted(self.team.peers) if (count := len(self.traffic.send[peer]))}
        return self._receive(counts, like, tag, ranked=ranked)

    def _receive(self, counts: dict[int, int], like: Tensor, tag: int, *, ranked: bool = False) -> Iterator[tuple[int, Tensor]]:
        shapes = {peer: (count, like.shape[1]) for peer, count in counts.items()}
        receive = self.team.receive_each if ranked else self.team.receive_any
        return receive(tag, shapes, self._wire_type(like.dtype), like.device)

    def fill_mirrors(self, rows: Tensor, coming: Iterator[tuple[int, Tensor]]) -> Tensor:
        """Fill the mirrors' places among all rows with what their owners sent (`receive_mirrors`)."""
        for peer, block in coming:
            rows[self.traffic.mirrors_of(peer)] = block
        return rows

    def add_for_own(self, into: Tensor, coming: Iterator[tuple[int, Tensor]]) -> None:
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


class _Pull(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, exchange: TeamExchange, tag: int) -> Tensor:
        ctx.exchange, ctx.tag = exchange, tag
        coming = exchange.receive_mirrors(rows, tag)
        exchange.send_own(rows, tag)
        out = rows.new_empty(exchange.traffic.rows, rows.shape[1])
        out[: len(rows)] = rows
        return exchange.fill_mirrors(out, coming)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        exchange, tag = ctx.exchange, Calls.backward(ctx.tag)
        coming = exchange.receive_for_own(gradient, tag)
        owned = exchange.traffic.owned
        exchange.send_mirrors(gradient[owned:], tag)
        own = gradient[:owned].clone()
        exchange.add_for_own(own, coming)
        return own, None, None


class _AllSum(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, exchange: TeamExchange, tag: int) -> Tensor:
        ctx.exchange, ctx.tag = exchange, tag
        total = exchange.team.all_sum(tag, values)
        return total.clone() if total is values else total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.exchange.team.all_sum(Calls.backward(ctx.tag), gradient), None, None
