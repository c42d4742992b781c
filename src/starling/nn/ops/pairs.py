"""Scores of pairs of rows with gradients; memory is that of pairs and of rows, never of pairs × columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.kernels.pair_scores import score_triples, triple_gradient
from starling.nn.ops.arrays import accumulator, applied, array


def pair_products(rows: Tensor, weight: Tensor, source: Tensor, destination: Tensor, relation: Tensor) -> Tensor:
    """Σ over columns of rows[source] · weight[relation] · rows[destination], [M]; gradients reach `rows` and `weight`."""
    result: Tensor = applied(_PairProducts, rows, weight, source, destination, relation)
    return result


class _PairProducts(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, source: Tensor, destination: Tensor, relation: Tensor) -> Tensor:
        kind = accumulator(rows)
        ctx.arrays = array(rows, kind), array(weight, kind)
        ctx.index = tuple(np.ascontiguousarray(index.numpy()) for index in (source, relation, destination))
        ctx.stored = rows.dtype, weight.dtype
        return torch.from_numpy(score_triples(ctx.arrays[0], ctx.arrays[1], ctx.arrays[0], ctx.index))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (rows, weight), (source, relation, destination) = ctx.arrays, ctx.index
        given = np.ascontiguousarray(gradient.numpy())
        row_gradient = weight_gradient = None
        if ctx.needs_input_grad[0]:
            into = triple_gradient(given, len(rows), source, weight, relation, rows, destination)
            into += triple_gradient(given, len(rows), destination, weight, relation, rows, source)
            row_gradient = torch.from_numpy(into).to(ctx.stored[0])
        if ctx.needs_input_grad[1]:
            into = triple_gradient(given, len(weight), relation, rows, source, rows, destination)
            weight_gradient = torch.from_numpy(into).to(ctx.stored[1])
        return row_gradient, weight_gradient, None, None, None
