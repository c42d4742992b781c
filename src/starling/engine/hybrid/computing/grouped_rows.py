"""A layer computed group by group (`layers/row_groups.py`), each when the rows that it reads have come; and the same backward.

Forward: own rows are sent, rows that read own ones alone are computed while messages fly, then whatever each message completes.
Backward autograd goes back from the last group to the first, since it takes what was made last first: a worker's mirrors' gradients
are complete, and leave, before the groups that did not wait for it are gone through. Groups are always taken in one order, so that
neither the order of arrival nor ``--overlap off``, which takes all messages first and sends gradients last, changes a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.engine.hybrid.layers.row_groups import OWN, RowGroup, Stretch
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.engine.hybrid.messages.pushes import Push
from starling.engine.hybrid.messages.row_messages import Coming
from starling.kernels.rows import add_rows
from starling.nn.excerpt import Excerpt
from starling.nn.ops.arrays import applied
from starling.nn.row_work import Node, NodeLayout, RowWork
from starling.nn.view import ListWork


def compute_by_groups(
    exchange: TeamExchange,
    groups: Sequence[RowGroup],
    rows: Tensor,
    work: ListWork,
    *,
    overlap: bool,
) -> tuple[Tensor, ...]:
    """What `work` makes of all groups, in the order of destinations."""
    blocks: dict[int, Tensor] = {}
    made = list(_computed(_Journey(exchange, exchange.calls.next_tag(), overlap), groups, rows, work, blocks))
    return _joined(groups, made, blocks)


def compute_and_push(
    exchange: TeamExchange,
    groups: Sequence[RowGroup],
    rows: Tensor,
    work: ListWork,
    push_of: Callable[[tuple[Tensor, ...]], Push],
    *,
    overlap: bool,
) -> Tensor:
    """Own rows' results, joined with what others' mirrors have made; mirrors' leave as soon as they are computed."""
    blocks: dict[int, Tensor] = {}
    computed = _computed(_Journey(exchange, exchange.calls.next_tag(), overlap), groups, rows, work, blocks)
    own = [number for number, group in enumerate(groups) if not group.pushed]
    (mirrors,) = set(range(len(groups))) - set(own)
    made = list(islice(computed, mirrors + 1))
    push = push_of(made[mirrors])
    token = push.start(*made[mirrors]) if overlap else None
    made += computed
    token = push.start(*made[mirrors]) if token is None else token
    return push.finish(token, *_joined([groups[number] for number in own], [made[number] for number in own], blocks))


def _computed(
    journey: _Journey, groups: Sequence[RowGroup], rows: Tensor, work: ListWork, blocks: dict[int, Tensor]
) -> Iterator[tuple[Tensor, ...]]:
    """Each group's results, when the rows that it reads have come; `blocks` gets what came."""
    own, token = applied(_Depart, rows, journey)
    for group in groups:
        for worker in group.waits_for[len(blocks) :]:
            blocks[worker] = applied(_Arrive, token, journey, worker)
        yield work(group.piece, _sources_of(journey, group, own, token, blocks))
    assert len(blocks) == len(journey.senders), "the last group waits for all: their gradients are waited for, too"


def _joined(groups: Sequence[RowGroup], made: Sequence[tuple[Tensor, ...]], blocks: dict[int, Tensor]) -> tuple[Tensor, ...]:
    places = [torch.from_numpy(group.rows) for group in groups]
    return tuple(applied(_Join, places, *parts, *blocks.values()) for parts in zip(*made, strict=True))


def then_by_groups(
    node: Node, rows: Tensor, work: RowWork, reduction: ListWork, on_lists: Callable[[Tensor, ListWork], Any]
) -> Node:
    """Each group's rows go on into their row work at once, while messages for later groups fly; groups are stretches of rows.

    `rows` are the node's, as the reduction reads them.
    """
    tensors, given = node.apart()
    made = NodeLayout()

    def onward(piece: Excerpt, rows: Tensor) -> tuple[Tensor, ...]:
        nonlocal made
        (aggregate,), stretch = reduction(piece, rows), piece.rows
        assert isinstance(stretch, slice)
        kept = {number: tensors[number][stretch] for number in given.kept}
        results, made = work.run(stretch.start, given.node(kept), aggregate).apart()
        return tuple(results)

    results = on_lists(rows, onward)
    return made.node(dict(enumerate(results)))


class _Journey:
    """The messages of one layer, there and back."""

    def __init__(self, exchange: TeamExchange, tag: int, overlap: bool) -> None:
        self._exchange, self._tag, self._overlap = exchange, tag, overlap
        self._coming: Coming = iter(())
        self._come: dict[int, Tensor] = {}
        self._left = len(exchange.senders)
        self._returning: Coming | None = None
        self._not_sent: dict[int, Tensor] = {}
        self._for_own: list[tuple[NDArray[np.int64], Tensor]] = []

    @property
    def senders(self) -> list[int]:
        """Whose rows come, in the order in which they are waited for."""
        return self._exchange.senders

    def depart(self, rows: Tensor) -> None:
        """Ask for others' rows, and send own ones."""
        self._coming = self._exchange.receive_mirrors(rows, self._tag)
        self._exchange.send_own(rows, self._tag)
        if not self._overlap:
            self._come, self._left = {worker: block.to(rows.dtype, copy=True) for worker, block in self._coming}, 0

    def arrive(self, worker: int, dtype: torch.dtype) -> Tensor:
        """A worker's rows, once they have come."""
        while worker not in self._come:
            sender, block = next(self._coming)
            self._come[sender] = block.to(dtype, copy=True)
            self._left -= 1
        if not self._left:
            next(self._coming, None)  # what the last message came in is its sender's again
        return self._come.pop(worker)

    def send_back(self, worker: int, gradient: Tensor) -> None:
        """Send a worker the gradients of its rows."""
        self._ask(gradient)
        if self._overlap:
            self._exchange.send_block(worker, gradient, Calls.answer_to(self._tag))
        else:
            self._not_sent[worker] = gradient

    def keep_for_own(self, rows: NDArray[np.int64], gradient: Tensor) -> None:
        """Keep gradients of some own rows until all of them are there: a matrix for each group would cost more than the sum."""
        self._for_own.append((rows, gradient))

    def end(self, own: Tensor) -> Tensor:
        """Own rows' gradients, with what groups and others add to them."""
        returning = self._ask(own)
        for worker, gradient in self._not_sent.items():
            self._exchange.send_block(worker, gradient, Calls.answer_to(self._tag))
        self._exchange.depart(own)
        own = own.clone()
        for rows, gradient in self._for_own:
            add_rows(gradient.contiguous().numpy(), rows, own.numpy())
        self._exchange.add_for_own(own, returning)
        self._not_sent, self._for_own, self._returning = {}, [], None  # autograd keeps the journey as long as the graph
        return own

    def _ask(self, like: Tensor) -> Coming:
        """Ask for others' gradients, before anything is sent or waited for."""
        if self._returning is None:
            self._returning = self._exchange.receive_for_own(like, Calls.answer_to(self._tag))
        return self._returning


class _Depart(Function):
    """Own rows, which were sent; and a token that arrivals hang on, so that their gradients leave before own rows' are complete."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, journey: _Journey) -> tuple[Tensor, Tensor]:
        ctx.journey = journey
        journey.depart(rows)
        return rows.view_as(rows), rows.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Any:
        return ctx.journey.end(gradient), None


class _Arrive(Function):
    """A worker's rows, and back."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, journey: _Journey, worker: int) -> Tensor:
        ctx.journey, ctx.worker = journey, worker
        return journey.arrive(worker, token.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        ctx.journey.send_back(ctx.worker, gradient.contiguous())
        return gradient.new_empty(0), None, None


def _sources_of(journey: _Journey, group: RowGroup, own: Tensor, token: Tensor, blocks: dict[int, Tensor]) -> Tensor:
    """The rows that a group reads, in its order."""
    if group.reads_own_as_they_are:
        return own
    workers = sorted({stretch.worker for stretch in group.stretches} - {OWN})
    rows: Tensor = applied(_Collect, token, journey, group, own.detach(), workers, *(blocks[worker] for worker in workers))
    return rows


class _Collect(Function):
    """Rows of several workers as those of one group; each is read by one place of the group."""

    @staticmethod
    def forward(
        ctx: Any, token: Tensor, journey: _Journey, group: RowGroup, own: Tensor, workers: list[int], *blocks: Tensor
    ) -> Tensor:
        ctx.journey, ctx.group, ctx.workers, ctx.lengths = journey, group, workers, [len(block) for block in blocks]
        out = own.new_empty(group.piece.graph.sources, own.shape[1])
        given = {OWN: own, **dict(zip(workers, blocks, strict=True))}
        for stretch in group.stretches:
            torch.index_select(given[stretch.worker], 0, torch.from_numpy(stretch.there), out=out[stretch.here])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        found = dict.fromkeys(ctx.workers)
        for worker, length in zip(ctx.workers, ctx.lengths, strict=True):
            mine = [stretch for stretch in ctx.group.stretches if stretch.worker == worker]
            found[worker] = _gradient_of(mine, length, gradient)
        for stretch in ctx.group.stretches:
            if stretch.worker == OWN:
                ctx.journey.keep_for_own(stretch.there, gradient[stretch.here])
        return gradient.new_empty(0), None, None, None, None, *found.values()


def _gradient_of(stretches: Sequence[Stretch], length: int, gradient: Tensor) -> Tensor:
    """The gradients of a worker's rows; as they lie where all of them are read one after the other."""
    if len(stretches) == 1 and stretches[0].in_order and len(stretches[0].there) == length:
        return gradient[stretches[0].here]
    rows = gradient.new_zeros(length, gradient.shape[1])
    for stretch in stretches:
        rows.index_copy_(0, torch.from_numpy(stretch.there), gradient[stretch.here])
    return rows


class _Join(Function):
    """Groups' results in the order of destinations. `after` the parts come what must not be forgotten on the way back."""

    @staticmethod
    def forward(ctx: Any, places: list[Tensor], *parts_and_more: Tensor) -> Tensor:
        parts = parts_and_more[: len(places)]
        ctx.places, ctx.more = places, len(parts_and_more) - len(places)
        out = parts[0].new_empty(sum(len(part) for part in parts), parts[0].shape[1])
        for place, part in zip(places, parts, strict=True):
            out.index_copy_(0, place, part)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, *(gradient.index_select(0, place) for place in ctx.places), *[None] * ctx.more
