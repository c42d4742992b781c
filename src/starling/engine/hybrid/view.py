"""A layer's view when a team computes it: sums of own rows are made while others' rows are on their way.

Forward: boundary rows are sent, own rows are summed, and each worker's block is added when it has come. Backward: mirrors'
gradients are computed and sent first, own ones while those fly. Blocks are added in a fixed order, each as soon as it and those
before it are there, so that overlap changes no bit: with ``--overlap off`` the same sums are made after everything has come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.engine.hybrid.exchange import Calls, TeamExchange
from starling.engine.hybrid.plan import WorkerLayer
from starling.engine.hybrid.split_edges import PeerEdges, SplitEdges
from starling.engine.hybrid.traffic import Traffic
from starling.kernels.mapped import sum_lists
from starling.kernels.rows import Rows, add_rows
from starling.kernels.spmm import Coefficients
from starling.nn.gather import Copy, Reduce
from starling.nn.ops.arrays import accumulator, applied, array, has_kernels, rows
from starling.nn.view import Size, View

Blocks = Iterator[tuple[int, Tensor]]
"""(worker, its rows that are mirrored here)."""

_COLUMNS_AT_ONCE = 32
"""Of input features whose sums are kept."""


@dataclass(eq=False)
class TeamView(View):
    """A view whose exchange is a team's. `whole` are the numbers of this layer over all workers."""

    whole: Size = field(default_factory=lambda: Size(0, 0, 0))
    overlap: bool = True
    layer: WorkerLayer | None = None

    @property
    def size(self) -> Size:
        """Rows and edges over all workers."""
        return self.whole

    def linear(self, gather: Copy, reduce: Reduce, rows: Tensor) -> Tensor:
        """A sum or mean of copied rows, split by who owns the source."""
        exchange, layer, weight = self.exchange, self.layer, gather.edge_weight
        learnt = weight is not None and weight.requires_grad
        if not isinstance(exchange, TeamExchange) or layer is None or exchange.spread or learnt or not has_kernels(rows):
            return super().linear(gather, reduce, rows)
        in_split = layer.sums is not None and weight is None  # it has the scales of edges left out
        factors = self.factors(gather, reduce, None if in_split else self.graph.edge_scale)
        f = {name: array(value, accumulator(rows)) for name, value in factors.items()}
        coefficients = Coefficients(f["edge_weight"], f["source_scale"], f["row_scale"], f["own_weight"])
        split = layer.split(numbered=len(coefficients.edge) > 0)
        if exchange.known is not None and rows is exchange.known[0]:
            return _sum(exchange.traffic, _here_already(exchange), split, coefficients, rows)
        if self.is_constant(rows):
            return self._sum_once(rows, split, coefficients, exchange)
        result: Tensor = applied(_TeamSum, rows, self, split, coefficients, exchange.calls.forward())
        return result

    def _sum_once(self, x: Tensor, split: SplitEdges[Any], c: Coefficients, exchange: TeamExchange) -> Tensor:
        """A sum that will be kept, some columns at a time: the rows of all mirrors at once would be the most that a run holds."""
        out = torch.empty(split.inner.rows, x.shape[1], dtype=accumulator(x))
        for first in range(0, x.shape[1], _COLUMNS_AT_ONCE):
            columns = slice(first, first + _COLUMNS_AT_ONCE)
            piece, tag = x[:, columns].contiguous(), exchange.calls.forward()
            coming = exchange.receive_mirrors(piece, tag, counted=first == 0)
            exchange.send_own(piece, tag)
            out[:, columns] = _sum(exchange.traffic, self.in_time(coming), split, c, piece)
        return out

    def in_time(self, coming: Blocks) -> Blocks:
        """Blocks as they come, or without overlap when all are here."""
        return coming if self.overlap else _all_come(coming)


def _here_already(exchange: TeamExchange) -> Blocks:
    """Input rows of mirrors that were fetched when the run began."""
    assert exchange.known is not None
    offsets, mirrors = exchange.traffic.mirror_offsets, exchange.known[1]
    spans = ((peer, offsets[peer], offsets[peer + 1]) for peer in exchange.team.peers)
    return ((peer, mirrors[start:stop]) for peer, start, stop in spans if stop > start)


def _all_come(coming: Blocks) -> Blocks:
    """The same blocks when the last of them is here."""
    return iter([(peer, block.clone()) for peer, block in coming])


def _sum(traffic: Traffic, blocks: Blocks, split: SplitEdges[Any], c: Coefficients, x: Tensor) -> Tensor:
    own = c.source[: traffic.owned]
    out = torch.empty(split.inner.rows, x.shape[1], dtype=accumulator(x))
    sum_lists(split.inner, Coefficients(c.edge, own, c.row, c.own), rows(x), rows(out))
    if split.between is not None:
        _add_sum(split.between, c, own, x, out)
    for peer, block in blocks:
        if peer in split.peers:
            _add_sum(split.peers[peer], c, c.source[traffic.mirrors_of(peer)], block, out)
    return out


def _add_sum(edges: PeerEdges[Any], c: Coefficients, source: NDArray[Any], block: Tensor, out: Tensor) -> None:
    """Add what comes from a block of rows, whose factors are `source`."""
    row = _scaled(c.row[edges.rows] if len(c.row) else c.row, len(edges.rows), edges.scale)
    partial = torch.empty(len(edges.rows), block.shape[1], dtype=out.dtype)
    sum_lists(edges.forward, Coefficients(c.edge, source, row, c.edge[:0]), rows(block), rows(partial))
    add_rows(partial.numpy(), edges.rows, out.numpy())


def _turned_sum(edges: PeerEdges[Any], c: Coefficients, source: NDArray[Any], given: Rows, into: Tensor, *, add: bool) -> None:
    """The gradients of a block of rows, written or added."""
    source = _scaled(source, edges.backward.rows, edges.scale)
    sum_lists(edges.backward, Coefficients(c.edge, c.row, source, c.edge[:0]), given, rows(into), accumulate=add)


def _scaled(factor: NDArray[Any], count: int, scale: float) -> NDArray[Any]:
    if scale == 1:
        return factor
    return factor * factor.dtype.type(scale) if len(factor) else np.full(count, scale, factor.dtype)


class _TeamSum(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, view: TeamView, split: SplitEdges[Any], coefficients: Coefficients, tag: int) -> Tensor:
        assert isinstance(view.exchange, TeamExchange)
        ctx.view, ctx.split, ctx.coefficients, ctx.tag, ctx.stored = view, split, coefficients, tag, x.dtype
        x = x.detach()
        coming = view.exchange.receive_mirrors(x, tag)
        view.exchange.send_own(x, tag)
        return _sum(view.exchange.traffic, view.in_time(coming), split, coefficients, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        view, exchange, split, c = ctx.view, ctx.view.exchange, ctx.split, ctx.coefficients
        traffic, tag, given, width = exchange.traffic, Calls.backward(ctx.tag), rows(gradient), gradient.shape[1]
        own = torch.empty(traffic.owned, width, dtype=gradient.dtype)

        def sum_own() -> None:
            factors = Coefficients(c.edge, c.source[: traffic.owned], c.row, c.own)
            sum_lists(split.inner_turned(c.edge), factors.transposed(), given, rows(own))
            if split.between is not None:
                _turned_sum(split.between, c, factors.source, given, own, add=True)

        coming = exchange.receive_for_own(gradient, tag)
        if not view.overlap:
            sum_own()
        for peer in exchange.team.peers:
            if traffic.mirror_count(peer):
                block = torch.zeros(traffic.mirror_count(peer), width, dtype=gradient.dtype)
                if peer in split.peers:
                    _turned_sum(split.peers[peer], c, c.source[traffic.mirrors_of(peer)], given, block, add=False)
                exchange.send_block(peer, block, tag)
        exchange.depart(gradient)
        if view.overlap:
            sum_own()
        exchange.add_for_own(own, coming)
        return own.to(ctx.stored), None, None, None, None
