"""Attention: scores of edges, their softmax, and the weighted sum, with gradients. The largest intermediate is edges × heads.

The scores' memory is reused for the weights, and their gradient's for the gradient before LeakyReLU; neither leaves this file.
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

from starling.kernels.adjacency import Adjacency, Lists, adjacency
from starling.kernels.pairs import pair_backward, pair_scores
from starling.kernels.scores import additive_backward, additive_scores, drop_edges, edge_dots
from starling.kernels.softmax import softmax, softmax_backward
from starling.kernels.spmm import Coefficients, plain_sum, weighted_sum
from starling.nn.ops.arrays import applied, rows, table


@dataclass(frozen=True, eq=False)
class EdgeDropout:
    """Dropout of attention weights, keyed by the positions of an edge's ends: [S], and [D] where rows are not the first sources."""

    probability: float
    key: np.uint64
    position: NDArray[np.int64]
    row_position: NDArray[np.int64] | None = None

    def apply(self, edges: Lists, weight: NDArray[Any], out: NDArray[Any]) -> None:
        """Write the weights that stay, scaled."""
        rows = self.position if self.row_position is None else self.row_position
        drop_edges(edges, weight, rows, self.position, self.key, self.probability, out)


def with_products(x: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Rows x [S, F] as they are, for one reader that gives them a gradient of its own, and x @ vectors.

    Backward, the product's part is added to that gradient where it lies: a matrix of all rows less, and fresh pages cost the most.
    """
    rows, products = applied(_WithProducts, x, vectors)
    return rows, products


def attend_additive(
    edges: Lists,
    x: Tensor,
    source: Tensor,
    target: Tensor,
    slope: float,
    *,
    own_score: Tensor | None = None,
    edge_score: Tensor | None = None,
    edge_rows: Tensor | None = None,
    dropout: EdgeDropout | None = None,
) -> tuple[Tensor, Tensor]:
    """GAT: weighted sum of rows x [S, H·F] by scores from source [S, H] and target [D, H]; also the log-sum [D, H].

    `own_score` [up to D, H] is a self-loop's score, activated already. With `edge_rows` [E, A] their sums [D, H·A] follow.
    """
    score = applied(_AdditiveScores, source, target, edge_score, edges, slope)
    out, log_sum = applied(_SoftmaxSum, x, score, own_score, edge_rows, edges, dropout)
    return out, log_sum


def attend_pairs(
    edges: Lists,
    x: Tensor,
    target: Tensor,
    vector: Tensor,
    slope: float,
    *,
    own_score: Tensor | None = None,
    dropout: EdgeDropout | None = None,
) -> tuple[Tensor, Tensor]:
    """GATv2: weighted sum of rows x [S, H·F] by scores ⟨vector, LeakyReLU(x_u + target_v)⟩; also the log-sum [D, H]."""
    score = applied(_PairScores, x, target, vector, edges, slope)
    out, log_sum = applied(_SoftmaxSum, x, score, own_score, None, edges, dropout)
    return out, log_sum


class _WithProducts(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, vectors)
        return x.view_as(x), x @ vectors

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, products: Tensor) -> Any:
        x, vectors = ctx.saved_tensors
        return gradient.addmm_(products, vectors.T), x.T @ products


class _AdditiveScores(Function):
    @staticmethod
    def forward(ctx: Any, source: Tensor, target: Tensor, edge: Tensor | None, edges: Lists, slope: float) -> Tensor:
        heads, kind = source.shape[1], source.dtype
        ctx.ends = (table(source, heads, kind), table(target, heads, kind), table(edge, heads, kind))
        ctx.edges, ctx.slope = edges, slope
        score = torch.empty(edges.entries, heads, dtype=kind)
        additive_scores(edges, ctx.ends[0], ctx.ends[1], ctx.ends[2], slope, score.numpy())
        return score

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        gradient = gradient.contiguous()
        heads = gradient.shape[1]
        target = torch.empty(ctx.edges.rows, heads, dtype=gradient.dtype)
        ends = ctx.ends
        additive_backward(ctx.edges, ends[0], ends[1], ends[2], ctx.slope, gradient.numpy(), target.numpy())
        source = torch.empty(ctx.edges.columns, heads, dtype=gradient.dtype)
        weighted_sum(ctx.edges.transposed.by_edge, plain_sum(target.numpy().dtype), rows(gradient), rows(source))
        return source, target, gradient if ctx.needs_input_grad[2] else None, None, None


class _PairScores(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, target: Tensor, vector: Tensor, edges: Lists, slope: float) -> Tensor:
        ctx.arrays = (
            table(x, x.shape[1], x.dtype),
            table(target, x.shape[1], x.dtype),
            table(vector, vector.shape[1], x.dtype),
        )
        ctx.edges, ctx.slope = edges, slope
        score = torch.empty(edges.entries, len(vector), dtype=x.dtype)
        pair_scores(edges, ctx.arrays[0], ctx.arrays[1], ctx.arrays[2], slope, score.numpy())
        return score

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, target, vector = ctx.arrays
        given = gradient.contiguous().numpy()
        x_gradient, target_gradient = np.empty_like(x), np.empty_like(target)
        vector_gradient = pair_backward(ctx.edges, x, target, vector, ctx.slope, given, target_gradient)
        pair_backward(ctx.edges.transposed, target, x, vector, ctx.slope, given, x_gradient)
        return *(torch.from_numpy(part) for part in (x_gradient, target_gradient, vector_gradient)), None, None


class _SoftmaxSum(Function):
    """Softmax over the scores (whose memory it takes) and the sum weighted by it; outputs the sums and the log-sums."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        score: Tensor,
        own_score: Tensor | None,
        edge_rows: Tensor | None,
        edges: Lists,
        dropout: EdgeDropout | None,
    ) -> tuple[Tensor, Tensor]:
        heads, kind = score.shape[1], score.dtype
        weight = score.detach().numpy()
        own = table(None if own_score is None else own_score.detach().clone(), heads, kind)
        log_sum = torch.empty(edges.rows, heads, dtype=kind)
        softmax(edges, weight, own, log_sum.numpy())
        used, own_used = _dropped(edges, weight, own, dropout)
        factors = Coefficients(used.reshape(-1), own[:0, 0], own[:0, 0], own_used.reshape(-1), heads)
        beside = 0 if edge_rows is None else edge_rows.shape[1] * heads
        out = torch.empty(edges.rows, x.shape[1] + beside, dtype=kind)
        weighted_sum(edges, factors, rows(x), rows(out[:, : x.shape[1]]))
        if edge_rows is not None:
            only = Coefficients(factors.edge, own[:0, 0], own[:0, 0], own[:0, 0], heads)
            weighted_sum(edges.by_edge, only, rows(edge_rows), rows(out[:, x.shape[1] :]))
        ctx.edges, ctx.factors, ctx.weight, ctx.own, ctx.dropout = edges, factors, weight, own, dropout
        ctx.save_for_backward(x, edge_rows, out)
        ctx.set_materialize_grads(False)
        return out, log_sum

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, log_gradient: Tensor | None) -> Any:
        x, edge_rows, out = ctx.saved_tensors
        edges, factors, heads = ctx.edges, ctx.factors, ctx.factors.heads
        gradient = torch.zeros_like(out) if gradient is None else gradient
        nodes = gradient[:, : x.shape[1]]
        x_gradient = torch.empty_like(x)
        weighted_sum(edges.transposed, factors.transposed(), rows(nodes), rows(x_gradient))
        score_gradient = torch.empty(edges.entries, heads, dtype=x.dtype)
        edge_dots(edges, factors, rows(nodes), rows(x), score_gradient.numpy())
        shift = -_row_dots(nodes, out[:, : x.shape[1]], heads)
        edge_gradient = None
        if edge_rows is not None:
            beside = gradient[:, x.shape[1] :]
            dots = torch.empty_like(score_gradient)
            edge_dots(edges.by_edge, factors, rows(beside), rows(edge_rows), dots.numpy())
            score_gradient += dots
            shift -= _row_dots(beside, out[:, x.shape[1] :], heads)
            if ctx.needs_input_grad[3]:
                edge_gradient = torch.empty_like(edge_rows)
                only = Coefficients(factors.edge, factors.row, factors.row, factors.row, heads)
                weighted_sum(edges.by_edge.transposed, only, rows(beside), rows(edge_gradient))
        if log_gradient is not None:
            shift += log_gradient
        own_gradient = _row_dots(nodes[: len(ctx.own)], x[: len(ctx.own)], heads)
        if ctx.dropout is not None:
            given = score_gradient.numpy()
            ctx.dropout.apply(edges, given, given)
            ctx.dropout.apply(self_loops(len(ctx.own)), own_gradient.numpy(), own_gradient.numpy())
        softmax_backward(edges, ctx.weight, score_gradient.numpy(), shift.numpy())
        own_gradient = torch.from_numpy(ctx.own) * (own_gradient + shift[: len(ctx.own)])
        return x_gradient, score_gradient, own_gradient if ctx.needs_input_grad[2] else None, edge_gradient, None, None


def _row_dots(a: Tensor, b: Tensor, heads: int) -> Tensor:
    """⟨a_i, b_i⟩ of each head [N, H]: the dot products of self-loops."""
    out = torch.empty(len(a), heads, dtype=a.dtype)
    none = out[:0, 0].numpy()
    edge_dots(self_loops(len(a)), Coefficients(none, none, none, none, heads), rows(a), rows(b), out.numpy())
    return out


def _dropped(
    edges: Lists, weight: NDArray[Any], own: NDArray[Any], dropout: EdgeDropout | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    if dropout is None:
        return weight, own
    used, own_used = np.empty_like(weight), np.empty_like(own)
    dropout.apply(edges, weight, used)
    dropout.apply(self_loops(len(own)), own, own_used)
    return used, own_used


def self_loops(count: int) -> Adjacency:
    """The self-loops of the first rows, as edges."""
    return adjacency(np.arange(count + 1, dtype=np.int64), np.arange(count, dtype=np.int32), count)
