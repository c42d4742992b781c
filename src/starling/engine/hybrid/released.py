"""Rows go on to the next layer block by block, each block when a counter says that its last message was added.

A sum over neighbours and the row work behind it (update, activation, dropout, the next layer's product) are one autograd function.
Forward: blocks that wait for nobody go on while messages fly, and each message that comes lets more blocks go on. Backward the same
from the other end: gradients of a layer's rows are not waited for where they are made, but in the function before it, where each
block goes back through its row work when what other workers add to it is there; and a worker's mirrors' gradients leave as soon as
the blocks that they are made of are done. Every block computes the same numbers whenever its turn comes, and weights' gradients are
added in the order of blocks: neither the order of arrival nor ``--overlap off`` changes a bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.engine.hybrid.additions import Additions, touched
from starling.engine.hybrid.block_work import BlockWork
from starling.engine.hybrid.exchange import Calls
from starling.engine.hybrid.team_sum import Blocks, TeamSum
from starling.kernels.adjacency import NO_ROWS
from starling.nn.ops.arrays import applied
from starling.nn.row_work import Node, RowWork

BLOCK_ROWS = 2048
"""Rows of a block: so few that they stay in the cache from one step of row work to the next, and that cuts touch few blocks."""
LEAST_COMING, LEAST_EARLY = 0.1, 0.1
"""Rows that come, and rows in blocks that need not wait for all of them, to each own row: with fewer of either a layer is not cut
into blocks, which cost more than they can gain (bench/released_rows.py)."""


@dataclass(eq=False)
class LateGradient:
    """The gradient of a node's rows, cut into blocks at `bounds`: who makes it may leave it to who needs it to add what comes."""

    bounds: NDArray[np.int64]
    gradient: Tensor | None = None
    additions: Additions | None = None
    coming: Blocks = field(default_factory=lambda: iter(()))


@dataclass(eq=False)
class _Release:
    """One sum and its row work. `tag` is that of the sum's messages; None where the sums are known."""

    sum: TeamSum
    work: BlockWork
    tag: int | None
    before: LateGradient | None
    """Of the rows that are summed, where the function that made them takes what comes."""
    after: LateGradient
    """Of the rows that come out."""


def worth_releasing(together: TeamSum) -> bool:
    """Whether rows that go on early can make up for the price of blocks: there are some, and messages worth waiting for."""
    bounds, rows = _bounds(together), together.split.inner.rows
    many_come = together.exchange.traffic.mirrors >= LEAST_COMING * rows
    return len(bounds) > 2 and many_come and together.early_share(bounds) >= LEAST_EARLY


def _bounds(together: TeamSum) -> NDArray[np.int64]:
    """The ends of the blocks of own destinations."""
    count = together.split.inner.rows
    return np.append(np.arange(0, count, BLOCK_ROWS), count)


def release(together: TeamSum, node: Node, work: RowWork, aggregate: Tensor | None = None) -> Node:
    """The node that row work makes of the sums over a node's rows; `aggregate` are these sums where they are known."""
    bounds = _bounds(together)
    blocks = BlockWork(work, bounds, node.multiplied, own_is_summed=node.own is node.rows, recorded=torch.is_grad_enabled())
    tag = together.exchange.calls.forward() if aggregate is None else None
    before = node.mark if isinstance(node.mark, LateGradient) and together.overlap else None
    job = _Release(together, blocks, tag, before, LateGradient(bounds))
    own = None if node.own is node.rows else node.own
    rows, apart = applied(_Released, job, node.rows, own, aggregate, *work.weights)
    return Node(rows, rows if apart is None else apart, blocks.multiplied, job.after)


class _Released(Function):
    """(rows, own where that is apart from them) → the same of the next layer."""

    @staticmethod
    def forward(ctx: Any, job: _Release, x: Tensor, own: Tensor | None, known: Tensor | None, *weights: Tensor) -> Any:
        work, together, x = job.work, job.sum, x.detach()
        work.begin(
            x if own is None else own.detach(),
            sum_learns=ctx.needs_input_grad[1] and known is None,
            own_learns=ctx.needs_input_grad[1 if own is None else 2],
            weights=tuple(weight for number, weight in enumerate(weights) if ctx.needs_input_grad[4 + number]),
        )
        if known is not None:
            for block in range(work.count):
                work.run(block, known)
        else:
            assert job.tag is not None
            coming = together.start(x, job.tag)
            sums = together.inner(x)
            additions = together.additions(sums, work.bounds)
            for block in additions.untouched():
                work.run(block, sums)
            for peer, theirs in coming:
                for block in together.take(additions, peer, theirs):
                    work.run(block, sums)
        ctx.job, ctx.summed, ctx.own_shape = job, x.new_empty(0, x.shape[1]), None if own is None else own.shape
        ctx.save_for_backward(*work.put_away())
        return work.take_results()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, rows_gradient: Tensor, own_gradient: Tensor | None) -> Any:
        job: _Release = ctx.job
        work, late = job.work, job.after
        given = rows_gradient if late.gradient is None else late.gradient
        work.begin_backward(ctx.saved_tensors, given, own_gradient, ctx.summed)
        waits, back = late.additions, _Back(job)
        for block in range(work.count) if waits is None else waits.untouched():
            back.run(block)
        for peer, theirs in late.coming:
            assert waits is not None
            with job.sum.exchange.team.ledger.time("communication"):
                complete = waits.take(peer, theirs)
            for block in complete:
                back.run(block)
        late.gradient = late.additions = None
        rows = back.finish()
        own = None
        if work.own_gradient is not None and ctx.own_shape is not None:
            own = _padded(work.own_gradient, ctx.own_shape)
        return None, rows, own, None, *work.end_backward(ctx.needs_input_grad[4:])


class _Back:
    """The way back from sums to the rows that were summed, as blocks of the sums' gradients are made."""

    def __init__(self, job: _Release) -> None:
        self._job, self._exchange, gradient = job, job.sum.exchange, job.work.sum_gradient
        self._tag = Calls.backward(job.tag or 0)
        self._coming: Blocks = iter(())
        if gradient is not None:  # asked for before anything is sent or waited for
            self._coming = self._exchange.receive_for_own(gradient, self._tag)
        edges, bounds = job.sum.split.peers, job.work.bounds
        self._needs = {
            peer: touched(edges[peer].rows if peer in edges else NO_ROWS, bounds) for peer in self._exchange.team.peers
        }
        """Of whose mirrors' gradients each block is a part, and was not made yet."""
        self._send_what_is_ready()

    def run(self, block: int) -> None:
        """Take a block back through its row work, and send what is complete by that."""
        self._job.work.run_backward(block)
        for needed in self._needs.values():
            needed[block] = False
        self._send_what_is_ready()

    def _send_what_is_ready(self) -> None:
        if self._job.work.sum_learns and self._job.sum.overlap:
            for peer in [peer for peer, needed in self._needs.items() if not needed.any()]:
                self._send(peer)

    def _send(self, peer: int) -> None:
        assert self._job.work.sum_gradient is not None
        self._job.sum.send_back(peer, self._job.work.sum_gradient, self._tag)
        del self._needs[peer]

    def finish(self) -> Tensor | None:
        """The gradient of the rows that were summed, or all of it that is here, with the rest left to the function before."""
        job, work = self._job, self._job.work
        if work.sum_gradient is None:
            return work.own_gradient if work.own_is_summed else None
        own = job.sum.own_gradient(work.sum_gradient)
        for peer in list(self._needs):  # without overlap: only now
            self._send(peer)
        self._exchange.depart(own)
        if work.own_is_summed and work.own_gradient is not None:
            own[: len(work.own_gradient)] += work.own_gradient
        if job.before is None:
            self._exchange.add_for_own(own, self._coming)
        else:
            job.before.gradient, job.before.coming = own, self._coming
            job.before.additions = self._exchange.additions_for_own(own, job.before.bounds)
        return own


def _padded(rows: Tensor, shape: torch.Size) -> Tensor:
    """Rows with zeros below, for those that nobody read."""
    if rows.shape == shape:
        return rows
    out = rows.new_zeros(shape)
    out[: len(rows)] = rows
    return out
