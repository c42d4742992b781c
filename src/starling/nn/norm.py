"""Normalisation whose statistics do not depend on how rows are spread over workers."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from starling.core.exchange import ALONE
from starling.nn.initial import Draws
from starling.nn.view import View

Norm = Literal["none", "batch", "layer"]


class BatchNorm(nn.Module):
    """Batch norm over the rows of all workers; each contributes its own rows once."""

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int, momentum: float = 0.1, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.momentum, self.epsilon = momentum, epsilon
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def initialise(self, draws: Draws) -> None:
        """Start as the identity."""
        nn.init.ones_(self.weight)
        draws.zero(self.bias)
        self.mean.zero_()
        self.variance.fill_(1)

    def forward(self, view: View, h: Tensor) -> Tensor:
        """Normalise each column."""
        if not self.training:
            return batch_norm(h, self.mean, self.variance, self.weight, self.bias, False, 0.0, self.epsilon)
        if view.exchange is ALONE and len(h) > 1:
            return batch_norm(h, self.mean, self.variance, self.weight, self.bias, True, self.momentum, self.epsilon)
        count = view.exchange.all_sum(h.new_full((1,), float(len(h)))).clamp(min=1)
        mean = view.exchange.all_sum(h.sum(0)) / count
        variance = view.exchange.all_sum((h - mean).square().sum(0)) / count
        with torch.no_grad():
            unbiased = variance * count / (count - 1).clamp(min=1)
            self.mean.lerp_(mean.to(self.mean), self.momentum)
            self.variance.lerp_(unbiased.to(self.variance), self.momentum)
        return (h - mean) * (variance + self.epsilon).rsqrt() * self.weight + self.bias


class LayerNorm(nn.Module):
    """Layer norm: each row by itself."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, view: View, h: Tensor) -> Tensor:
        """Normalise each row."""
        result: Tensor = self.norm(h)
        return result


def make_norm(kind: Norm, width: int) -> BatchNorm | LayerNorm | None:
    """The normalisation of a name."""
    return None if kind == "none" else BatchNorm(width) if kind == "batch" else LayerNorm(width)
