"""Partial results over a vertex-cut go from mirrors to owners in two steps, between which an engine may compute.

`start` sends what mirrors have made, `finish` joins it with what owners have made themselves. Backward it is the other way round:
`finish` sends what mirrors need for their gradients, and `start` waits for it; whatever was computed between the two goes back
while these messages fly. What several workers have made of one row is joined in the order of ranks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.row_messages import Coming, RowMessages
from starling.nn.ops.arrays import applied


class Push(ABC):
    """One push of one layer. Mirrors' tensors have a row for each mirror, owners' one for each own row."""

    def __init__(self, exchange: RowMessages) -> None:
        self.exchange, self.tag = exchange, exchange.calls.next_tag()
        self.coming: Coming = iter(())
        self.returning: Coming = iter(())

    def start(self, *mirrors: Tensor) -> Tensor:
        """Send what mirrors have made; a token for `finish`."""
        token: Tensor = applied(_Start, self, *mirrors)
        return token

    def finish(self, token: Tensor, *own: Tensor) -> Tensor:
        """What everybody has made of the own destinations."""
        result: Tensor = applied(_Finish, self, token, *own)
        return result

    def of_all(self, *partial: Tensor) -> Tensor:
        """Both at once, of own rows and the mirrors after them."""
        owned = self.exchange.traffic.owned
        parts = [torch.split(each, [owned, len(each) - owned]) for each in partial]
        return self.finish(self.start(*(mirrors for _, mirrors in parts)), *(own for own, _ in parts))

    # ---- forward ----

    @abstractmethod
    def message(self, mirrors: Sequence[Tensor]) -> Tensor:
        """What mirrors send, a row each."""

    def kept_of_mirrors(self, mirrors: Sequence[Tensor]) -> Sequence[Tensor]:
        """What their gradients will be made of."""
        return ()

    @abstractmethod
    def joined(self, own: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor]]:
        """Rows of the own destinations, and what gradients will be made of; `coming` is from mirrors."""

    # ---- backward ----

    @abstractmethod
    def own_gradients(self, gradient: Tensor, kept: Sequence[Tensor]) -> Sequence[Tensor]:
        """Those of own rows, after what mirrors need was sent."""

    @abstractmethod
    def mirrors_gradients(self, kept: Sequence[Tensor]) -> Sequence[Tensor]:
        """Those of mirrors; `returning` is from owners."""

    # ---- what they have in common ----

    def send(self, message: Tensor) -> None:
        """Ask for what others' mirrors have made of own rows, and send their owners what mirrors here have."""
        self.coming = self.exchange.receive_for_own(message, self.tag, ranked=True)
        self.exchange.send_mirrors(message, self.tag)

    def send_back(self, message: Tensor) -> None:
        """Ask for what owners of mirrors have to say, and tell others' mirrors, a row for each own row."""
        self.returning = self.exchange.receive_mirrors(message, self.back)
        self.exchange.send_own(message, self.back)

    def returned(self, like: Tensor) -> Tensor:
        """What was said, a row for each mirror, of the width and type of rows that were sent back."""
        traffic = self.exchange.traffic
        rows = like.new_empty(traffic.mirrors, like.shape[1])
        for peer, block in self.returning:
            rows[traffic.among_mirrors(peer)] = block
        return rows

    @property
    def back(self) -> int:
        """The tag of the way back."""
        return Calls.answer_to(self.tag)


class RowsPush(Push):
    """Rows of which nothing but the width is needed for their gradients, which come from owners."""

    def message(self, mirrors: Sequence[Tensor]) -> Tensor:
        """They themselves."""
        return mirrors[0]

    def kept_of_mirrors(self, mirrors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Their width."""
        return (mirrors[0].new_empty(0, mirrors[0].shape[1]),)

    def mirrors_gradients(self, kept: Sequence[Tensor]) -> Sequence[Tensor]:
        """What owners sent."""
        return (self.returned(kept[0]),)


class SumPush(RowsPush):
    """Partial sums."""

    def joined(self, own: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor]]:
        """Added up."""
        total = own[0].clone()
        self.exchange.add_for_own(total, self.coming)
        return total if self.exchange.outputs == len(total) else total[: self.exchange.outputs].clone(), ()

    def own_gradients(self, gradient: Tensor, kept: Sequence[Tensor]) -> Sequence[Tensor]:
        """Everybody's gradient is that of the sum."""
        rows = self.exchange.traffic.all_own(gradient)
        self.send_back(rows)
        return (rows,)


class MaxPush(RowsPush):
    """Partial maxima. The gradient goes to the first worker, in the order of ranks with the owner first, that has the maximum."""

    def joined(self, own: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor]]:
        """The largest, and who has it."""
        exchange, best = self.exchange, own[0].clone()
        winner = torch.full(best.shape, exchange.team.rank, device=best.device)
        for peer, block in self.coming:
            index = exchange.traffic.sent_to(peer, best.device)
            given, before = block.to(best.dtype), best[index]
            best[index] = torch.maximum(given, before)
            winner[index] = torch.where(given > before, peer, winner[index])
        return best[: exchange.outputs].clone(), (winner[: exchange.outputs],)

    def own_gradients(self, gradient: Tensor, kept: Sequence[Tensor]) -> Sequence[Tensor]:
        """Each worker is sent the gradients of the maxima that are its own."""
        exchange, rows = self.exchange, self.exchange.traffic.all_own(gradient)
        winner = torch.full(rows.shape, -1, device=rows.device)
        winner[: exchange.outputs] = kept[0]
        self.returning = exchange.receive_mirrors(rows, self.back)
        for peer in exchange.team.peers:
            index = exchange.traffic.sent_to(peer, rows.device)
            if len(index):
                exchange.send_block(peer, rows[index] * (winner[index] == peer), self.back)
        exchange.depart(rows)
        return (rows * (winner == exchange.team.rank),)


class _Start(Function):
    @staticmethod
    def forward(ctx: Any, push: Push, *mirrors: Tensor) -> Tensor:
        ctx.push = push
        ctx.save_for_backward(*push.kept_of_mirrors(mirrors))
        message = push.message(mirrors)
        push.send(message)
        return message.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> Any:
        return None, *ctx.push.mirrors_gradients(ctx.saved_tensors)


class _Finish(Function):
    @staticmethod
    def forward(ctx: Any, push: Push, token: Tensor, *own: Tensor) -> Tensor:
        ctx.push, ctx.token = push, token.new_empty(0)
        out, kept = push.joined(own)
        ctx.save_for_backward(*kept)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, ctx.token, *ctx.push.own_gradients(gradient, ctx.saved_tensors)
