"""Attention over a vertex-cut: what each worker's edges give a row becomes the softmax over all of them, in one message each way.

A mirror sends its weighted sum and the log-sum of its scores. The owner adds sums weighted by exp(log-sum − whole log-sum), worker
after worker, so that no score ever overflows. Backward, the owner sends the gradient, the whole log-sum, and each head's dot
product of the gradient with the whole sum: from these a mirror knows its weight and both its gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from starling.engine.hybrid.messages.pushes import Push
from starling.engine.hybrid.messages.row_messages import RowMessages
from starling.nn.ops.arrays import split_columns


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


class SoftmaxPush(Push):
    """Weighted sums and log-sums, rows as wide as those `like` them [N, F] and [N, H].

    Head h's columns are the h-th of H equal stretches of the first `node_columns`, and of the others.
    """

    def __init__(self, exchange: RowMessages, like: tuple[Tensor, Tensor], node_columns: int) -> None:
        super().__init__(exchange)
        rows, log_sum = like
        narrow = exchange.wire == "bfloat16" and rows.dtype == torch.float32
        self._columns = _Columns(log_sum.shape[1], node_columns, narrow)

    def message(self, mirrors: Sequence[Tensor]) -> Tensor:
        """Both side by side."""
        return self._columns.pack(*mirrors)

    def kept_of_mirrors(self, mirrors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Both."""
        return mirrors

    def joined(self, own: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor]]:
        """What mirrors have is added by its share of the whole, in the order of ranks."""
        exchange, columns, (partial, log_sum) = self.exchange, self._columns, own
        out, whole = partial.clone(), log_sum.clone()
        for peer, block in self.coming:
            index = exchange.traffic.sent_to(peer, out.device)
            given, given_log = columns.unpack(block, out.dtype)
            before = whole[index]
            total = torch.logaddexp(before, given_log)
            kept, added = (columns.of_heads(_share(part, total), out.shape[1]) for part in (before, given_log))
            out[index] = out[index] * kept + given * added
            whole[index] = total
        out = out[: exchange.outputs].clone()
        return out, (partial, log_sum, out, whole)

    def own_gradients(self, gradient: Tensor, kept: Sequence[Tensor]) -> Sequence[Tensor]:
        """Mirrors are sent what their weights and gradients follow from."""
        columns, (partial, log_sum, out, whole) = self._columns, kept
        given, dots = map(self.exchange.traffic.all_own, (gradient, columns.dots(gradient, out)))
        self.send_back(columns.pack(torch.cat([given, dots], 1), whole))
        return self._gradients(partial, log_sum, given, dots, whole)

    def mirrors_gradients(self, kept: Sequence[Tensor]) -> Sequence[Tensor]:
        """From what was sent."""
        columns, (partial, log_sum) = self._columns, kept
        width = partial.shape[1]
        like = columns.pack(partial.new_empty(0, width + columns.heads), log_sum[:0])
        known, total = columns.unpack(self.returned(like), partial.dtype)
        return self._gradients(partial, log_sum, known[:, :width], known[:, width:], total)

    def _gradients(self, partial: Tensor, log_sum: Tensor, given: Tensor, dots: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        columns, share = self._columns, _share(log_sum, total)
        log_gradient = share * (columns.dots(given, partial) - dots)
        return given * columns.of_heads(share, given.shape[1]), log_gradient


def _share(log_sum: Tensor, total: Tensor) -> Tensor:
    """exp(log_sum − total), zero where there is no edge."""
    return torch.where(log_sum == -torch.inf, 0.0, (log_sum - total).exp())
