"""The exchange of a team: values go from owners to mirrors, gradients and partial results from mirrors to owners."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.push_softmax import SoftmaxPush
from starling.engine.hybrid.messages.pushes import MaxPush, SumPush
from starling.engine.hybrid.messages.row_messages import RowMessages
from starling.nn.ops.arrays import applied


@dataclass(eq=False)
class TeamExchange(RowMessages):
    """Rows of one layer of one step, with gradients (`core/exchange.py`)."""

    known: tuple[Tensor, Tensor] | None = field(default=None, repr=False)
    """Input rows that never change, own and mirrors': pulling the own ones needs no message."""

    @property
    def workers(self) -> int:
        """The team's."""
        return self.team.size

    def pull(self, rows: Tensor) -> Tensor:
        """Own rows → own rows and mirrors. Given the destinations alone, which come first, the other rows are zero."""
        if self.known is not None and rows is self.known[0]:
            return torch.cat(self.known)
        result: Tensor = applied(_Pull, self.traffic.all_own(rows), self, self.calls.next_tag())
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
        result: Tensor = applied(_AllSum, values, self, self.calls.next_tag())
        return result


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
        exchange, tag = ctx.exchange, Calls.answer_to(ctx.tag)
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
        return ctx.exchange.team.all_sum(Calls.answer_to(ctx.tag), gradient), None, None
