"""Attention over a vertex-cut: what each worker's edges give a row becomes the softmax over all of them, in one message each way.

A mirror sends its weighted sum and the log-sum of its scores. The owner adds sums weighted by exp(log-sum − whole log-sum), worker
after worker, so that no score ever overflows. Backward, the owner sends the gradient, the whole log-sum, and each head's dot
product of the gradient with the whole sum: from these a mirror knows its weight and both its gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.engine.hybrid.calls import Calls
from starling.nn.ops.arrays import split_columns

if TYPE_CHECKING:
    from starling.engine.hybrid.exchange import TeamExchange


@dataclass(frozen=True)
class _Columns:
    """H heads in `nodes` columns, and again in those after them. A `narrow` message is of bfloat16."""

    heads: int
    nodes: int
    narrow: bool

    def of_heads(self, values: Tensor, width: int) -> Tensor:
        """A number a head [N, H] → one for each of its columns [N, width]."""
        parts = (self.nodes, width - self.nodes)
        return torch.cat([values.repeat_interleave(part // self.heads, 1) for part in parts if part], 1)

    def dots(self, a: Tensor, b: Tensor) -> Tensor:
        """The dot product of each head's columns [N, H]."""
        product = a * b
        parts = (product[:, : self.nodes], product[:, self.nodes :])
        return sum((split_columns(part, self.heads).sum(-1) for part in parts if part.shape[1]), product.new_zeros(1))

    def pack(self, rows: Tensor, log_sum: Tensor) -> Tensor:
        """One message. A narrow one has the bits of float32 log-sums in two columns: they are raised to a power."""
        if not self.narrow:
            return torch.cat([rows, log_sum], 1)
        return torch.cat([rows.bfloat16(), log_sum.float().contiguous().view(torch.bfloat16)], 1)

    def unpack(self, message: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """(everything before the log-sums, the log-sums)."""
        width = 2 * self.heads if self.narrow else self.heads
        log_sum = message[:, -width:]
        log_sum = log_sum.clone(memory_format=torch.contiguous_format).view(torch.float32) if self.narrow else log_sum
        return message[:, :-width].to(dtype), log_sum.to(dtype)


class PushSoftmax(Function):
    """Weighted sums and log-sums of own rows and mirrors → weighted sums over all edges of the own destinations."""

    @staticmethod
    def forward(ctx: Any, partial: Tensor, log_sum: Tensor, exchange: TeamExchange, node_columns: int, tag: int) -> Tensor:
        """Add what mirrors have, in the order of ranks."""
        columns = _Columns(log_sum.shape[1], node_columns, exchange.wire == "bfloat16" and partial.dtype == torch.float32)
        owned, message = exchange.traffic.owned, columns.pack(partial, log_sum)
        coming = exchange.receive_for_own(message, tag, ranked=True)
        exchange.send_mirrors(message, tag)
        out, whole = partial[:owned].clone(), log_sum[:owned].clone()
        for peer, block in coming:
            index = exchange.traffic.sent_to(peer, out.device)
            given, given_log = columns.unpack(block, out.dtype)
            before = whole[index]
            total = torch.logaddexp(before, given_log)
            kept, added = (columns.of_heads(_share(part, total), out.shape[1]) for part in (before, given_log))
            out[index] = out[index] * kept + given * added
            whole[index] = total
        out = out[: exchange.outputs].clone()
        ctx.exchange, ctx.columns, ctx.tag = exchange, columns, tag
        ctx.save_for_backward(partial, log_sum, out, whole)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Bring mirrors what their weights and gradients follow from."""
        exchange, columns, tag = ctx.exchange, ctx.columns, Calls.backward(ctx.tag)
        partial, log_sum, out, whole = ctx.saved_tensors
        width, owned = gradient.shape[1], exchange.traffic.owned
        own = gradient.new_zeros(owned, width + columns.heads)
        own[: exchange.outputs, :width], own[: exchange.outputs, width:] = gradient, columns.dots(gradient, out)
        message = columns.pack(own, whole)
        coming = exchange.receive_mirrors(message, tag)
        exchange.send_own(message, tag)
        rows = message.new_empty(exchange.traffic.rows, message.shape[1])
        known, total = columns.unpack(exchange.fill_mirrors(rows, coming), gradient.dtype)
        known[:owned], total[:owned] = own, whole
        given, dots, share = known[:, :width], known[:, width:], _share(log_sum, total)
        log_gradient = share * (columns.dots(given, partial) - dots)
        return given * columns.of_heads(share, width), log_gradient, None, None, None


def _share(log_sum: Tensor, total: Tensor) -> Tensor:
    """exp(log_sum − total), zero where there is no edge."""
    return torch.where(log_sum == -torch.inf, 0.0, (log_sum - total).exp())
