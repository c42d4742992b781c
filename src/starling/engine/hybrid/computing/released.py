"""Rows go on to the next layer block by block, each block when a counter says that its last message was added.

A sum over neighbours and the row work behind it (update, activation, dropout, the next layer's product) are one autograd function.
Forward: blocks that wait for nobody go on while messages fly, and each message that comes lets more blocks go on; those that others
wait for come first, and the next layer's messages leave as soon as the blocks that they are made of are done. Backward the same
from the other end: gradients of a layer's rows are not waited for where they are made, but in the function before it, where each
block goes back through its row work when what other workers add to it is there, and mirrors' gradients leave as their blocks are
done. Every block computes the same numbers whenever its turn comes, and weights' gradients are added in the order of blocks:
neither the order of arrival nor ``--overlap off`` changes a bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.engine.hybrid.computing.block_work import BlockWork
from starling.engine.hybrid.computing.departures import Departures
from starling.engine.hybrid.computing.row_blocks import cut_blocks, touched
from starling.engine.hybrid.computing.team_sum import TeamSum
from starling.engine.hybrid.messages.additions import Additions
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.engine.hybrid.messages.row_messages import Coming
from starling.kernels.adjacency import NO_ROWS
from starling.nn.ops.arrays import applied
from starling.nn.row_work import Node, RowWork

BLOCK_ROWS, LEAST_ROWS = 8192, 2048
"""Most rows of a block, and least ones that get one of their own: each costs autograd 0.1 to 0.2 ms (bench/released_rows.py)."""
LEAST_EARLY = 0.1
"""The share of rows in blocks that need not wait for everybody: with less a layer is not cut into blocks, which would not pay."""


@dataclass(eq=False)
class Handover:
    """What passes between the release that makes rows, cut into blocks at `bounds`, and the one that sums them.

    Forward: the maker may have sent them already, under `tag`, and others' rows are `coming`. Backward: the reader may leave its
    `gradient` without what others add to it, which is `returning` and goes into `additions`.
    """

    bounds: NDArray[np.int64]
    tag: int | None = None
    coming: Coming = field(default_factory=lambda: iter(()))
    gradient: Tensor | None = None
    additions: Additions | None = None
    returning: Coming = field(default_factory=lambda: iter(()))


@dataclass(eq=False)
class _Release:
    """One sum and its row work. `tag` is that of the sum's messages; None where the sums are known."""

    sum: TeamSum
    work: BlockWork
    tag: int | None
    before: Handover | None
    """From the release that made the rows that are summed, if one did."""
    after: Handover
    """To the release that will sum the rows that come out."""
    ahead: TeamExchange | None
    """By which these will be sent, where that need not wait for all of them."""


def worth_releasing(together: TeamSum) -> bool:
    """Whether enough rows can go on early to make up for the price of blocks."""
    bounds = _bounds(together)
    return len(bounds) > 2 and together.early_share(bounds) >= LEAST_EARLY


def _bounds(together: TeamSum) -> NDArray[np.int64]:
    """The ends of the blocks of own destinations."""
    return cut_blocks(together.waits(), most=BLOCK_ROWS, least=LEAST_ROWS)


def has_left(node: Node) -> bool:
    """Whether a node's rows are on their way already: then a release must sum them."""
    return isinstance(node.mark, Handover) and node.mark.tag is not None


def release(
    together: TeamSum, node: Node, work: RowWork, aggregate: Tensor | None = None, ahead: TeamExchange | None = None
) -> Node:
    """The node that row work makes of the sums over a node's rows; `aggregate` are these sums where they are known.

    `ahead` is the exchange of the sum that follows: what it will send leaves as soon as it is made.
    """
    bounds, before = _bounds(together), node.mark if isinstance(node.mark, Handover) else None
    tensors, layout = node.apart()
    blocks = BlockWork(work, bounds, layout, recorded=torch.is_grad_enabled())
    tag = before.tag if before is not None else None
    if tag is None and aggregate is None:
        tag = together.exchange.calls.next_tag()
    after = Handover(bounds)
    if ahead is not None and together.overlap:
        after.tag = ahead.calls.next_tag()
    job = _Release(together, blocks, tag, before, after, ahead if together.overlap else None)
    made = applied(_Released, job, aggregate, len(tensors), *tensors, *work.weights)
    return blocks.made.node(dict(enumerate(made)), job.after)


class _Released(Function):
    """The tensors of a node, rows first → those of the next layer's."""

    @staticmethod
    def forward(ctx: Any, job: _Release, known: Tensor | None, count: int, *tensors_and_weights: Tensor) -> Any:
        work, learns = job.work, ctx.needs_input_grad[3:]
        tensors, weights = [tensor.detach() for tensor in tensors_and_weights[:count]], tensors_and_weights[count:]
        work.begin(
            tensors,
            sum_learns=learns[0] and known is None,
            learns={number for number in range(count) if learns[number]},
            weights=tuple(weight for weight, wanted in zip(weights, learns[count:], strict=True) if wanted),
        )
        _Onward(job).run(tensors[0], known)
        ctx.job, ctx.summed, ctx.shapes = job, tensors[0].new_empty(0, tensors[0].shape[1]), [rows.shape for rows in tensors]
        ctx.save_for_backward(*work.put_away())
        return work.take_results()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, rows_gradient: Tensor, *apart: Tensor) -> Any:
        job: _Release = ctx.job
        work, late, count = job.work, job.after, len(ctx.shapes)
        given = rows_gradient if late.gradient is None else late.gradient
        work.begin_backward(ctx.saved_tensors, (given, *apart), ctx.summed)
        rows, kept = _Back(job).run(), work.kept_gradients
        others = [_padded(kept[k], ctx.shapes[k]) if k in kept else None for k in range(1, count)]
        return None, None, None, rows, *others, *work.end_backward(ctx.needs_input_grad[3 + count :])


class _Onward:
    """The way from the rows that are summed to those of the next layer, which leave as their blocks are made."""

    def __init__(self, job: _Release) -> None:
        self._job, self._asked = job, False
        made_of = {}
        if job.ahead is not None:
            send = job.ahead.traffic.send
            made_of = {peer: touched(send[peer], job.work.bounds) for peer in job.ahead.team.peers if len(send[peer])}
        self._leaving = Departures(made_of, self._send)

    def run(self, x: Tensor, known: Tensor | None) -> None:
        """All blocks, each when its sums are complete."""
        work, together = self._job.work, self._job.sum
        if known is not None:
            self._run(range(work.count), known)
            return
        coming = self._coming(x)
        sums = together.inner(x)
        additions = together.additions(sums, work.bounds)
        self._run(additions.untouched().tolist(), sums)
        for peer, theirs in coming:
            self._run(together.take(additions, peer, theirs).tolist(), sums)

    def _coming(self, x: Tensor) -> Coming:
        """Others' rows, after own ones were sent, by the release before this one or now."""
        job = self._job
        if job.before is not None and job.before.tag is not None:
            coming, job.before.coming = job.before.coming, iter(())
            return coming
        assert job.tag is not None
        return job.sum.start(x, job.tag)

    def _run(self, blocks: Iterable[int], sums: Tensor) -> None:
        for block in self._leaving.first(blocks):
            self._job.work.run(block, sums)
            self._ask()
            self._leaving.done(block)

    def _ask(self) -> None:
        """Ask for others' rows of the next layer, before own ones are sent; how wide they are is known from the first block."""
        job = self._job
        if job.ahead is not None and not self._asked:
            assert job.after.tag is not None
            job.after.coming, self._asked = job.ahead.receive_mirrors(job.work.rows, job.after.tag), True

    def _send(self, peer: int) -> None:
        assert self._job.ahead is not None
        assert self._job.after.tag is not None
        self._job.ahead.send_own_to(peer, self._job.work.rows, self._job.after.tag)


class _Back:
    """The way back from sums to the rows that were summed; gradients of others' rows leave as their blocks are made."""

    def __init__(self, job: _Release) -> None:
        self._job, self._exchange, gradient = job, job.sum.exchange, job.work.sum_gradient
        self._tag = Calls.answer_to(job.tag or 0)
        self._coming: Coming = iter(())
        made_of = {}
        if gradient is not None:  # asked for before anything is sent or waited for
            self._coming = self._exchange.receive_for_own(gradient, self._tag)
            edges, mirrors = job.sum.split.peers, self._exchange.traffic.mirror_count
            made_of = {
                peer: touched(edges[peer].rows if peer in edges else NO_ROWS, job.work.bounds)
                for peer in self._exchange.team.peers
                if mirrors(peer)
            }
        self._leaving = Departures(made_of, self._send, at_once=job.sum.overlap)

    def run(self) -> Tensor | None:
        """All blocks, each when its gradients are complete.

        Gives the gradient of the rows that were summed, or all of it that is here, with the rest left to the release before.
        """
        late, work = self._job.after, self._job.work
        self._run(range(work.count) if late.additions is None else late.additions.untouched().tolist())
        for peer, theirs in late.returning:
            assert late.additions is not None
            with self._exchange.team.ledger.time("communication"):
                complete = late.additions.take(peer, theirs)
            self._run(complete.tolist())
        late.gradient = late.additions = None
        return self._finish()

    def _run(self, blocks: Iterable[int]) -> None:
        for block in self._leaving.first(blocks):
            self._job.work.run_backward(block)
            self._leaving.done(block)

    def _send(self, peer: int) -> None:
        assert self._job.work.sum_gradient is not None
        self._job.sum.send_back(peer, self._job.work.sum_gradient, self._tag)

    def _finish(self) -> Tensor | None:
        job, work = self._job, self._job.work
        if work.sum_gradient is None:
            return work.kept_gradients.get(0)
        own = job.sum.own_gradient(work.sum_gradient)
        self._leaving.send_rest()  # without overlap: only now
        self._exchange.depart(own)
        if 0 in work.kept_gradients:  # destinations keep the rows that are summed
            own[: len(work.kept_gradients[0])] += work.kept_gradients[0]
        if job.before is None or not job.sum.overlap:
            self._exchange.add_for_own(own, self._coming)
        else:
            job.before.gradient, job.before.returning = own, self._coming
            job.before.additions = self._exchange.additions_for_own(own, job.before.bounds)
        return own


def _padded(rows: Tensor, shape: torch.Size) -> Tensor:
    """Rows with zeros below, for those that nobody read."""
    if rows.shape == shape:
        return rows
    out = rows.new_zeros(shape)
    out[: len(rows)] = rows
    return out
