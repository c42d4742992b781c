"""A layer's view when a team computes it: sums of own rows are made while others' rows are on their way.

Forward: boundary rows are sent, own rows are summed, and each worker's block is added when it has come. Backward: mirrors'
gradients are computed and sent first, own ones while those fly. Blocks are added in a fixed order, each as soon as it and those
before it are there, so that overlap changes no bit: with ``--overlap off`` the same sums are made after everything has come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.engine.hybrid.exchange import Calls, TeamExchange
from starling.engine.hybrid.split_edges import SplitEdges, split_edges
from starling.kernels.rows import add_rows
from starling.kernels.spmm import Coefficients, weighted_sum
from starling.nn.gather import Copy, Reduce
from starling.nn.graph import LocalGraph
from starling.nn.ops.arrays import accumulator, applied, array, rows
from starling.nn.view import Size, View


@dataclass(eq=False)
class TeamView(View):
    """A view whose exchange is a team's. `whole` are the numbers of this layer over all workers."""

    whole: Size = field(default_factory=lambda: Size(0, 0, 0))
    overlap: bool = True

    @property
    def size(self) -> Size:
        """Rows and edges over all workers."""
        return self.whole

    def linear(self, gather: Copy, reduce: Reduce, rows: Tensor) -> Tensor:
        """A sum or mean of copied rows, split by who owns the source."""
        exchange = self.exchange
        weighted = gather.edge_weight is not None and gather.edge_weight.requires_grad
        if not isinstance(exchange, TeamExchange) or exchange.spread or weighted or rows.device.type != "cpu":
            return super().linear(gather, reduce, rows)
        kind = accumulator(rows)
        f = {name: array(value, kind) for name, value in self.factors(gather, reduce).items()}
        coefficients = Coefficients(f["edge_weight"], f["source_scale"], f["row_scale"], f["own_weight"])
        if exchange.known is not None and rows is exchange.known[0]:
            return _sum(_KnownBlocks(exchange), split_of(self.graph, exchange), coefficients, rows)
        result: Tensor = applied(_TeamSum, rows, self, coefficients, exchange.calls.forward())
        return result


def split_of(graph: LocalGraph, exchange: TeamExchange) -> SplitEdges:
    """A graph's edges by owner, made once a graph."""
    kept: SplitEdges | None = graph.__dict__.get("_split")
    if kept is None:
        kept = graph.__dict__["_split"] = split_edges(graph.offsets.numpy(), graph.neighbours.numpy(), exchange.traffic)
    return kept


class _KnownBlocks:
    """Mirrors' rows that are here already."""

    def __init__(self, exchange: TeamExchange) -> None:
        assert exchange.known is not None
        self.exchange, self._mirrors = exchange, exchange.known[1]

    def __iter__(self) -> Any:
        traffic = self.exchange.traffic
        for peer in self.exchange.team.peers:
            start, stop = traffic.mirror_offsets[peer : peer + 2]
            if stop > start:
                yield peer, self._mirrors[start:stop]


class _ComingBlocks:
    """Mirrors' rows in messages; without overlap all are waited for before the first is given."""

    def __init__(self, exchange: TeamExchange, x: Tensor, tag: int, overlap: bool) -> None:
        self.exchange = exchange
        coming = exchange.receive_mirrors(x.shape[1], x.dtype, tag)
        self._blocks = coming if overlap else iter([(peer, block.clone()) for peer, block in coming])

    def __iter__(self) -> Any:
        return self._blocks


def _sum(blocks: _KnownBlocks | _ComingBlocks, split: SplitEdges, c: Coefficients, x: Tensor) -> Tensor:
    traffic, none = blocks.exchange.traffic, c.edge[:0]
    out = torch.empty(split.inner.rows, x.shape[1], dtype=accumulator(x))
    weighted_sum(split.inner, Coefficients(c.edge, c.source[: traffic.owned], c.row, c.own), rows(x), rows(out))
    for peer, block in blocks:
        edges = split.peers.get(peer)
        if edges is not None:
            source, row = c.source[traffic.mirrors_of(peer)], c.row[edges.rows] if len(c.row) else c.row
            partial = torch.empty(len(edges.rows), x.shape[1], dtype=out.dtype)
            weighted_sum(edges.forward, Coefficients(c.edge, source, row, none), rows(block), rows(partial))
            add_rows(partial.numpy(), edges.rows, out.numpy())
    return out


class _TeamSum(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, view: TeamView, coefficients: Coefficients, tag: int) -> Tensor:
        assert isinstance(view.exchange, TeamExchange)
        ctx.view, ctx.coefficients, ctx.tag, ctx.stored = view, coefficients, tag, x.dtype
        x = x.detach()
        view.exchange.send_own(x, tag)
        split = split_of(view.graph, view.exchange)
        return _sum(_ComingBlocks(view.exchange, x, tag, view.overlap), split, coefficients, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        view, exchange, c, tag = ctx.view, ctx.view.exchange, ctx.coefficients, Calls.backward(ctx.tag)
        split, traffic, none, width = split_of(view.graph, exchange), exchange.traffic, c.edge[:0], gradient.shape[1]
        given = rows(gradient)
        own = torch.empty(traffic.owned, width, dtype=gradient.dtype)

        def sum_own() -> None:
            turned = Coefficients(c.edge, c.source[: traffic.owned], c.row, c.own).transposed()
            weighted_sum(split.inner.transposed, turned, given, rows(own))

        if not view.overlap:
            sum_own()
        for peer in exchange.team.peers:
            if traffic.mirror_count(peer):
                block = torch.zeros(traffic.mirror_count(peer), width, dtype=gradient.dtype)
                if peer in split.peers:
                    source = c.source[traffic.mirrors_of(peer)]
                    weighted_sum(split.peers[peer].backward, Coefficients(c.edge, c.row, source, none), given, rows(block))
                exchange.send_block(peer, block, tag)
        if view.overlap:
            sum_own()
        exchange.add_for_own(own, tag)
        return own.to(ctx.stored), None, None, None
