"""The exchange of a team: values go from owners to mirrors, gradients and partial results from mirrors to owners.

One message for each pair of workers and direction, only rows that are active in the batch, no index. Every operation sends before
it waits, and sending never waits, so workers may reach it in any order. Where partial results or gradients of several workers meet
in one row, they are added in the order of ranks: the same bits in every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.engine.hybrid.traffic import Traffic
from starling.kernels.rows import add_rows, gather_rows
from starling.nn.ops.arrays import applied

Wire = Literal["float32", "bfloat16"]


@dataclass(eq=False)
class Calls:
    """Numbers the messages of one step, in the order of the calls, which is the same on every worker."""

    step: int
    channel: Channel = Channel.FORWARD
    _next: int = 0

    def forward(self) -> int:
        """The tag of the next forward message."""
        self._next += 1
        return make_tag(self.channel, self.step, self._next)

    @staticmethod
    def backward(tag: int) -> int:
        """The tag of the message that answers a forward one in the backward pass."""
        return tag | make_tag(Channel.BACKWARD, 0, 0)


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

    def pull(self, rows: Tensor) -> Tensor:
        """Own rows → own rows and mirrors. Given the destinations alone, which come first, the other rows are zero."""
        if self.known is not None and rows is self.known[0]:
            return torch.cat(self.known)
        if len(rows) < self.traffic.owned:
            rows = torch.cat([rows, rows.new_zeros(self.traffic.owned - len(rows), rows.shape[1])])
        result: Tensor = applied(_Pull, rows, self, self.calls.forward())
        return result

    def push_sum(self, partial: Tensor) -> Tensor:
        """Partial sums of own rows and mirrors → whole sums of the own destinations."""
        if not self.spread:
            return partial
        result: Tensor = applied(_PushSum, partial, self, self.calls.forward())
        return result

    def push_max(self, partial: Tensor) -> Tensor:
        """Partial maxima of own rows and mirrors → whole maxima of the own destinations."""
        if not self.spread:
            return partial
        result: Tensor = applied(_PushMax, partial, self, self.calls.forward())
        return result

    def all_sum(self, values: Tensor) -> Tensor:
        """Sums over all workers, whose gradients are summed too."""
        result: Tensor = applied(_AllSum, values, self, self.calls.forward())
        return result

    # ---- moving rows, without gradients ----

    def send_own(self, rows: Tensor, tag: int) -> None:
        """Send own rows to the workers that mirror them."""
        with self.team.ledger.time("communication"):
            for peer in self.team.peers:
                index = self.traffic.send[peer]
                if len(index):
                    self._send(peer, tag, rows, index)

    def send_mirrors(self, rows: Tensor, tag: int) -> None:
        """Send mirrors' rows (of all rows) to their owners."""
        with self.team.ledger.time("communication"):
            for peer in self.team.peers:
                where = self.traffic.mirrors_of(peer)
                if where.stop > where.start:
                    self.send_block(peer, rows[where], tag)

    def send_block(self, peer: int, block: Tensor, tag: int) -> None:
        """Send a block of rows to one worker."""
        parcel = self.team.links.parcel(peer, block.shape, self._wire_type(block.dtype))
        parcel.copy_(block)
        self._post(peer, tag, parcel)

    def receive_mirrors(
        self, width: int, dtype: torch.dtype, tag: int, *, counted: bool = True
    ) -> Iterator[tuple[int, Tensor]]:
        """(worker, its rows that are mirrored here), worker after worker; a block is to be read before the next is asked for.

        Further columns of rows that have come already are not `counted` in the ledger.
        """
        for peer in self.team.peers:
            count = self.traffic.mirror_count(peer)
            if count:
                if counted:
                    self.team.ledger.came(self.layer, count)
                with self.team.links.receive(peer, tag, (count, width), self._wire_type(dtype)) as block:
                    yield peer, block

    def receive_for_own(self, width: int, dtype: torch.dtype, tag: int) -> Iterator[tuple[int, Tensor]]:
        """(worker, what it has for the own rows `traffic.send[worker]`), in the order of ranks."""
        for peer in range(self.team.size):
            count = len(self.traffic.send[peer])
            if peer != self.team.rank and count:
                with self.team.links.receive(peer, tag, (count, width), self._wire_type(dtype)) as block:
                    yield peer, block

    def add_for_own(self, into: Tensor, tag: int) -> None:
        """Add what mirrors have gathered to their own rows in `into`."""
        for peer, block in self.receive_for_own(into.shape[1], into.dtype, tag):
            with self.team.ledger.time("communication"):
                if into.device.type == "cpu":
                    add_rows(block.to(into.dtype).numpy(), self.traffic.send[peer], into.numpy())
                else:
                    into.index_add_(0, torch.from_numpy(self.traffic.send[peer]).to(into.device), block.to(into))

    def _send(self, peer: int, tag: int, rows: Tensor, index: np.ndarray[Any, Any]) -> None:
        wire = self._wire_type(rows.dtype)
        parcel = self.team.links.parcel(peer, (len(index), rows.shape[1]), wire)
        if rows.device.type == "cpu" and wire == rows.dtype and rows.dtype != torch.bfloat16:
            gather_rows(rows.detach().contiguous().numpy(), index, parcel.numpy())
        else:
            parcel.copy_(rows.detach()[torch.from_numpy(index).to(rows.device)])
        self._post(peer, tag, parcel)

    def _post(self, peer: int, tag: int, parcel: Tensor) -> None:
        self.team.ledger.sent(peer, parcel.nbytes)
        self.team.links.send(peer, tag, parcel)

    def _wire_type(self, dtype: torch.dtype) -> torch.dtype:
        return torch.bfloat16 if self.wire == "bfloat16" and dtype == torch.float32 else dtype


class _Pull(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, exchange: TeamExchange, tag: int) -> Tensor:
        ctx.exchange, ctx.tag = exchange, tag
        exchange.send_own(rows, tag)
        out = rows.new_empty(exchange.traffic.rows, rows.shape[1])
        out[: len(rows)] = rows
        return _mirrors_into(exchange, out, tag)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        exchange, tag = ctx.exchange, Calls.backward(ctx.tag)
        exchange.send_mirrors(gradient, tag)
        own = gradient[: exchange.traffic.owned].clone()
        exchange.add_for_own(own, tag)
        return own, None, None


class _PushSum(Function):
    @staticmethod
    def forward(ctx: Any, partial: Tensor, exchange: TeamExchange, tag: int) -> Tensor:
        ctx.exchange, ctx.tag = exchange, tag
        exchange.send_mirrors(partial, tag)
        own = partial[: exchange.traffic.owned].clone()
        exchange.add_for_own(own, tag)
        return own[: exchange.outputs].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        exchange, tag = ctx.exchange, Calls.backward(ctx.tag)
        whole = gradient.new_zeros(exchange.traffic.rows, gradient.shape[1])
        whole[: exchange.outputs] = gradient
        exchange.send_own(whole, tag)
        return _mirrors_into(exchange, whole, tag), None, None


class _PushMax(Function):
    """The gradient goes to the first worker, in the order of ranks with the owner first, that holds the maximum."""

    @staticmethod
    def forward(ctx: Any, partial: Tensor, exchange: TeamExchange, tag: int) -> Tensor:
        ctx.exchange, ctx.tag = exchange, tag
        exchange.send_mirrors(partial, tag)
        best = partial[: exchange.traffic.owned].clone()
        winner = torch.full(best.shape, exchange.team.rank)
        for peer, block in exchange.receive_for_own(best.shape[1], best.dtype, tag):
            index = torch.from_numpy(exchange.traffic.send[peer])
            given, before = block.to(best.dtype), best[index]
            best[index] = torch.maximum(given, before)
            winner[index] = torch.where(given > before, peer, winner[index])
        ctx.winner = winner[: exchange.outputs]
        return best[: exchange.outputs].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        exchange, tag = ctx.exchange, Calls.backward(ctx.tag)
        whole = gradient.new_zeros(exchange.traffic.rows, gradient.shape[1])
        winner = torch.full((exchange.traffic.owned, gradient.shape[1]), -1)
        whole[: exchange.outputs], winner[: exchange.outputs] = gradient, ctx.winner
        for peer in exchange.team.peers:
            index = torch.from_numpy(exchange.traffic.send[peer])
            if len(index):
                exchange.send_block(peer, whole[index] * (winner[index] == peer), tag)
        whole[: exchange.traffic.owned] *= winner == exchange.team.rank
        return _mirrors_into(exchange, whole, tag), None, None


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


def _mirrors_into(exchange: TeamExchange, rows: Tensor, tag: int) -> Tensor:
    """Fill the mirrors' places among all rows with what their owners sent."""
    for peer, block in exchange.receive_mirrors(rows.shape[1], rows.dtype, tag):
        rows[exchange.traffic.mirrors_of(peer)] = block
    return rows
