"""Dropout keyed by node and feature (kernels/dropout.py), alone or together with ReLU in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from starling.kernels.dropout import drop_features, drop_threshold
from starling.nn.ops.arrays import applied, has_kernels
from starling.nn.view import View


def dropout(view: View, h: Tensor, probability: float, name: str, *, relu: bool = False, first: int = 0) -> Tensor:
    """Drop features of the rows of a layer's input (or of max(h, 0) with `relu`); row i is the view's source row `first` + i."""
    if probability == 0:
        return torch.relu(h) if relu else h
    key, position = view.moment.key(f"dropout/{name}"), view.graph.row_key[first : first + len(h)]
    if not has_kernels(h):  # the same mask, drawn on the CPU
        mask = torch.ones(h.shape)
        drop_features(mask.numpy(), position, key, probability, mask.numpy())
        return (torch.relu(h) if relu else h) * mask.to(h)
    result: Tensor = applied(_Dropout, h, position, key, probability, relu)
    return result


class _Dropout(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, position: np.ndarray[Any, Any], key: np.uint64, probability: float, positive: bool
    ) -> Tensor:
        given = x.detach().float() if x.dtype == torch.bfloat16 else x.detach()
        out = torch.empty(given.shape, dtype=given.dtype)
        drop_features(given.contiguous().numpy(), position, key, probability, out.numpy(), positive=positive)
        ctx.draw, ctx.stored = (position, key, probability), x.dtype
        if positive:
            ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        if ctx.saved_tensors:  # what is left above zero was neither dropped nor cut off
            (out,) = ctx.saved_tensors
            scale = drop_threshold(ctx.draw[2])[1]
            into = torch.ops.aten.threshold_backward(gradient, out, 0).mul_(scale)
        else:
            into = torch.empty(gradient.shape, dtype=gradient.dtype)
            position, key, probability = ctx.draw
            drop_features(gradient.contiguous().numpy(), position, key, probability, into.numpy())
        return into.to(ctx.stored), None, None, None, None
