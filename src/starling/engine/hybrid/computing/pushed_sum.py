"""A sum over a vertex-cut, whose edges lie with several workers: rows are pulled, summed here, and partial sums pushed to owners.

Own destinations and mirrors that are destinations are two sums over the same sources. Forward, both are made of own rows while the
pull flies; what the last message adds to mirrors is made first, and what it adds to own destinations while the push flies. Backward
it is the same from the other end: own destinations are gone through while mirrors' gradients fly, and others' rows' gradients leave
before own rows' are complete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.engine.hybrid.computing.team_sum import TeamSum
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.nn.ops.arrays import applied


@dataclass(frozen=True, eq=False)
class PushedSum:
    """The sums of own destinations, and those of mirrors."""

    own: TeamSum
    mirrors: TeamSum

    @property
    def exchange(self) -> TeamExchange:
        """Theirs."""
        return self.own.exchange


def sum_and_push(together: TeamSum, rows: Tensor) -> Tensor:
    """Own rows → whole sums of the own destinations; `together` sums all rows, mirrors included."""
    owned, c, calls = together.exchange.traffic.owned, together.factors, together.exchange.calls
    own, mirrors = together.split.cut(owned)
    pushed = PushedSum(
        replace(together, split=own, factors=replace(c, row=c.row[:owned])),
        replace(together, split=mirrors, factors=replace(c, row=c.row[owned:], own=c.own[:0])),
    )
    result: Tensor = applied(_SumAndPush, rows, pushed, calls.next_tag(), calls.next_tag())
    return result


class _SumAndPush(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, pushed: PushedSum, pull: int, push: int) -> Tensor:
        own, mirrors, exchange, x = pushed.own, pushed.mirrors, pushed.exchange, x.detach()
        ctx.pushed, ctx.pull, ctx.push, ctx.stored = pushed, pull, push, x.dtype
        coming, left = own.start(x, pull), len(exchange.senders)
        partial, out = mirrors.inner(x), own.inner(x)
        returning = exchange.receive_for_own(out, push)
        to_mirrors, to_own = mirrors.additions(partial), own.additions(out)
        if not left:
            exchange.send_mirrors(partial, push)
        for peer, block in coming:
            left -= 1
            mirrors.take(to_mirrors, peer, block)
            if not left:
                exchange.send_mirrors(partial, push)
            own.take(to_own, peer, block)
        exchange.add_for_own(out, returning)
        return out if exchange.outputs == len(out) else out[: exchange.outputs].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        own, mirrors, exchange = ctx.pushed.own, ctx.pushed.mirrors, ctx.pushed.exchange
        pull, push = Calls.answer_to(ctx.pull), Calls.answer_to(ctx.push)
        traffic, width = exchange.traffic, gradient.shape[1]
        given = traffic.all_own(gradient.contiguous())  # those that are no destinations have none
        coming = exchange.receive_mirrors(given, push)
        returning = exchange.receive_for_own(given, pull)
        exchange.send_own(given, push)
        of_mirrors = gradient.new_empty(traffic.rows, width)
        if not own.overlap:
            exchange.fill_mirrors(of_mirrors, coming)
        rows = own.own_gradient(given)
        blocks = {peer: own.mirrors_gradient(peer, given) for peer in exchange.senders}
        theirs = exchange.fill_mirrors(of_mirrors, coming)[traffic.owned :]
        for peer, block in blocks.items():
            exchange.send_block(peer, mirrors.mirrors_gradient(peer, theirs, block), pull)
        exchange.depart(rows)
        rows += mirrors.own_gradient(theirs)
        exchange.add_for_own(rows, returning)
        return rows.to(ctx.stored), None, None, None
