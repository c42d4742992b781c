"""A sum over the neighbours of a layer that a team makes together: its pieces, and the whole in one autograd function.

Forward: boundary rows are sent, own rows are summed, and each worker's block is taken when it comes. Backward: mirrors' gradients
are computed and sent first, own ones while those fly. What comes is added in the order of ranks, so that overlap changes no bit:
with ``--overlap off`` the same sums are made after everything has come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.engine.hybrid.computing.row_blocks import touched
from starling.engine.hybrid.layers.split_edges import PeerEdges, SplitEdges
from starling.engine.hybrid.messages.additions import Additions
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.engine.hybrid.messages.row_messages import Coming
from starling.kernels.spmm import Coefficients, weighted_sum
from starling.nn.ops.arrays import accumulator, rows


@dataclass(frozen=True, eq=False)
class TeamSum:
    """A layer's sum: its edges by who owns the source, and what they are scaled by."""

    exchange: TeamExchange
    split: SplitEdges[Any]
    factors: Coefficients
    overlap: bool = True

    # ---- forward ----

    def start(self, x: Tensor, tag: int, *, counted: bool = True) -> Coming:
        """Ask for others' rows and send own ones; what comes, as it comes, or without overlap when all is here."""
        coming = self.exchange.receive_mirrors(x, tag, counted=counted)
        self.exchange.send_own(x, tag)
        return coming if self.overlap else iter([(peer, block.clone()) for peer, block in coming])

    def inner(self, x: Tensor) -> Tensor:
        """The sums over own rows."""
        c, own = self.factors, self._own_scale
        out = torch.empty(self.split.inner.rows, x.shape[1], dtype=accumulator(x))
        weighted_sum(self.split.inner, Coefficients(c.edge, own, c.row, c.own), rows(x), rows(out))
        if self.split.between is not None:
            additions = Additions(out, {0: self.split.between.rows})
            additions.take(0, self._partial(self.split.between, own, x))
        return out

    def additions(self, out: Tensor, bounds: NDArray[np.int64] | None = None) -> Additions:
        """What the others' rows add to the sums."""
        peers = {peer: self.split.peers[peer].rows for peer in self.exchange.team.peers if peer in self.split.peers}
        return Additions(out, peers, bounds)

    def waits(self) -> NDArray[np.bool_]:
        """Of each sum whether others add to it."""
        waits = np.zeros(self.split.inner.rows, np.bool_)
        for edges in self.split.peers.values():
            waits[edges.rows] = True
        return waits

    def early_share(self, bounds: NDArray[np.int64]) -> float:
        """The share of the sums that lie in blocks which wait for fewer than all others that have something to add."""
        waits = [touched(edges.rows, bounds) for edges in self.split.peers.values()]
        return float(np.diff(bounds)[~np.all(waits, axis=0)].sum() / bounds[-1]) if waits else 0.0

    def take(self, additions: Additions, peer: int, block: Tensor) -> NDArray[np.int64]:
        """Sum a worker's block of rows; the blocks of sums that are complete by it."""
        if peer not in self.split.peers:
            return np.empty(0, np.int64)
        scale = self.factors.source[self.exchange.traffic.mirrors_of(peer)]
        return additions.take(peer, self._partial(self.split.peers[peer], scale, block), lasting=True)

    def whole(self, x: Tensor, blocks: Coming) -> Tensor:
        """All of it."""
        out = self.inner(x)
        additions = self.additions(out)
        for peer, block in blocks:
            self.take(additions, peer, block)
        return out

    # ---- backward ----

    def send_back(self, peer: int, gradient: Tensor, tag: int) -> None:
        """Send a worker the gradients of its rows that are mirrored here; the last is followed by the exchange's `depart`."""
        if self.exchange.traffic.mirror_count(peer):
            self.exchange.send_block(peer, self.mirrors_gradient(peer, gradient), tag)

    def mirrors_gradient(self, peer: int, gradient: Tensor, into: Tensor | None = None) -> Tensor:
        """The gradients of a worker's rows that are mirrored here, added to what there is of them."""
        traffic, add = self.exchange.traffic, into is not None
        if into is None:
            into = torch.zeros(traffic.mirror_count(peer), gradient.shape[1], dtype=gradient.dtype)
        if peer in self.split.peers:
            self._turned(self.split.peers[peer], self.factors.source[traffic.mirrors_of(peer)], gradient, into, add=add)
        return into

    def own_gradient(self, gradient: Tensor) -> Tensor:
        """The gradients of own rows by own sums."""
        c = self.factors
        own = torch.empty(self.exchange.traffic.owned, gradient.shape[1], dtype=gradient.dtype)
        factors = Coefficients(c.edge, self._own_scale, c.row, c.own)
        weighted_sum(self.split.inner.turned_for(c.edge), factors.transposed(), rows(gradient), rows(own))
        if self.split.between is not None:
            self._turned(self.split.between, factors.source, gradient, own, add=True)
        return own

    # ---- pieces ----

    @property
    def _own_scale(self) -> NDArray[Any]:
        return self.factors.source[: self.exchange.traffic.owned]

    def _partial(self, edges: PeerEdges[Any], source: NDArray[Any], block: Tensor) -> Tensor:
        """What comes from a block of rows, whose factors are `source`."""
        c, (edge, scale) = self.factors, self._edge_factors(edges)
        row = _scaled(c.row[edges.rows] if len(c.row) else c.row, len(edges.rows), scale)
        partial = torch.empty(len(edges.rows), block.shape[1], dtype=accumulator(block))
        weighted_sum(edges.forward, Coefficients(edge, source, row, c.edge[:0]), rows(block), rows(partial))
        return partial

    def _turned(self, edges: PeerEdges[Any], source: NDArray[Any], gradient: Tensor, into: Tensor, *, add: bool) -> None:
        """The gradients of a block of rows, written or added."""
        c, (edge, scale) = self.factors, self._edge_factors(edges)
        source = _scaled(source, edges.backward.rows, scale)
        weighted_sum(edges.backward, Coefficients(edge, c.row, source, c.edge[:0]), rows(gradient), rows(into), accumulate=add)

    def _edge_factors(self, edges: PeerEdges[Any]) -> tuple[NDArray[Any], float]:
        """Factors of each edge, and of all: edges that make up for others, each by its own scale, have no weights."""
        edge = self.factors.edge
        if isinstance(edges.scale, float | int):
            return edge, edges.scale
        assert not len(edge), "where edges have weights, scales are part of them"
        return edges.scale.astype(edge.dtype, copy=False), 1.0


def _scaled(factor: NDArray[Any], count: int, scale: float) -> NDArray[Any]:
    if scale == 1:
        return factor
    return factor * factor.dtype.type(scale) if len(factor) else np.full(count, scale, factor.dtype)


class SumTogether(Function):
    """The sum as a step of autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, team_sum: TeamSum, tag: int) -> Tensor:
        """Own rows → sums of the own destinations."""
        ctx.sum, ctx.tag, ctx.stored = team_sum, tag, x.dtype
        x = x.detach()
        return team_sum.whole(x, team_sum.start(x, tag))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Their gradients → those of own rows."""
        team_sum, tag = ctx.sum, Calls.answer_to(ctx.tag)
        exchange = team_sum.exchange
        coming = exchange.receive_for_own(gradient, tag)
        own = None if team_sum.overlap else team_sum.own_gradient(gradient)
        for peer in exchange.team.peers:
            team_sum.send_back(peer, gradient, tag)
        exchange.depart(gradient)
        own = team_sum.own_gradient(gradient) if own is None else own
        exchange.add_for_own(own, coming)
        return own.to(ctx.stored), None, None
