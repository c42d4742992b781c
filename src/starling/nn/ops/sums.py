"""Weighted sums over neighbours with gradients, and one dense product for two weight matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.kernels.adjacency import Lists
from starling.kernels.maximum import neighbour_max, neighbour_max_backward
from starling.kernels.scores import edge_dots
from starling.kernels.spmm import Coefficients, weighted_sum
from starling.nn.ops.arrays import accumulator, applied, array, rows


def sum_neighbours(
    adjacency: Lists,
    x: Tensor,
    *,
    edge_weight: Tensor | None = None,
    source_scale: Tensor | None = None,
    row_scale: Tensor | None = None,
    own_weight: Tensor | None = None,
) -> Tensor:
    """R (W + L) C x, [rows, F] (kernels/spmm.py). Gradients reach `x` and `edge_weight`; bfloat16 is summed in float32."""
    result: Tensor = applied(_WeightedSum, x, edge_weight, adjacency, x.shape[1], source_scale, row_scale, own_weight)
    return result


def sum_by_heads(adjacency: Lists, x: Tensor, edge_weight: Tensor, width: int) -> Tensor:
    """Σ over neighbours with H weights an edge, [rows, width]; gradients reach `x` and `edge_weight` [E, H].

    Where `width` is H times that of x, every head sums all of x, side by side; where it is the H-th part, head h sums its columns
    of x, and all are added.
    """
    result: Tensor = applied(_WeightedSum, x, edge_weight, adjacency, width)
    return result


def max_neighbours(adjacency: Lists, x: Tensor) -> Tensor:
    """The largest value among the neighbours, [rows, F]; zero for a row without any."""
    result: Tensor = applied(_Maximum, x, adjacency)
    return result


def two_products(x: Tensor, own: Tensor, neighbour: Tensor) -> tuple[Tensor, Tensor]:
    """x @ own and x @ neighbour by one product; the results are the two halves of one matrix."""
    first, second = applied(_TwoProducts, x, own, neighbour)
    return first, second


class _WeightedSum(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        edge_weight: Tensor | None,
        adjacency: Lists,
        width: int,
        source_scale: Tensor | None = None,
        row_scale: Tensor | None = None,
        own_weight: Tensor | None = None,
    ) -> Tensor:
        kind = accumulator(x)
        heads = 1 if edge_weight is None or edge_weight.dim() == 1 else edge_weight.shape[1]
        edge, source, row, own = (array(factor, kind) for factor in (edge_weight, source_scale, row_scale, own_weight))
        factors = Coefficients(edge.reshape(-1), source, row, own, heads)
        out = torch.empty(adjacency.rows, width, dtype=kind)
        weighted_sum(adjacency, factors, rows(x), rows(out))
        ctx.adjacency, ctx.factors, ctx.stored, ctx.shapes = adjacency, factors, x.dtype, (x.shape, edge.shape)
        if edge_weight is not None and edge_weight.requires_grad:
            ctx.save_for_backward(x)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        adjacency, factors, (x_shape, weight_shape) = ctx.adjacency, ctx.factors, ctx.shapes
        x_gradient = weight_gradient = None
        if ctx.needs_input_grad[0]:
            into = torch.empty(x_shape, dtype=gradient.dtype)
            weighted_sum(adjacency.turned_for(factors.edge), factors.transposed(), rows(gradient), rows(into))
            x_gradient = into.to(ctx.stored)
        if ctx.needs_input_grad[1]:
            (x,) = ctx.saved_tensors
            into = torch.empty(adjacency.entries, factors.heads, dtype=gradient.dtype)
            edge_dots(adjacency, factors, rows(gradient), rows(x.to(gradient.dtype)), into.numpy())
            weight_gradient = into.reshape(weight_shape)
        return x_gradient, weight_gradient, *[None] * (len(ctx.needs_input_grad) - 2)


class _Maximum(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, adjacency: Lists) -> Tensor:
        shape = (adjacency.rows, x.shape[1])
        out, winner = torch.empty(shape, dtype=accumulator(x)), torch.empty(shape, dtype=torch.int64)
        neighbour_max(adjacency, rows(x), out.numpy(), winner.numpy())
        ctx.adjacency, ctx.winner, ctx.stored, ctx.sources = adjacency, winner, x.dtype, len(x)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        into = torch.empty(ctx.sources, gradient.shape[1], dtype=gradient.dtype)
        neighbour_max_backward(ctx.adjacency.transposed, ctx.winner.numpy(), rows(gradient), into.numpy())
        return into.to(ctx.stored), None


class _TwoProducts(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, own: Tensor, neighbour: Tensor) -> tuple[Tensor, Tensor]:
        both = x @ torch.cat([own, neighbour], dim=1)
        ctx.save_for_backward(x, own, neighbour)
        return both[:, : own.shape[1]], both[:, own.shape[1] :]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, own_gradient: Tensor, neighbour_gradient: Tensor) -> Any:
        x, own, neighbour = ctx.saved_tensors
        x_gradient = None
        if ctx.needs_input_grad[0]:
            x_gradient = (own_gradient @ own.t()).addmm_(neighbour_gradient, neighbour.t())
        return x_gradient, x.t() @ own_gradient, x.t() @ neighbour_gradient
