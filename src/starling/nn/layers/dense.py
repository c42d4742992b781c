"""Layers without neighbours: the MLP baseline's, and NGNN's wrap (Song et al. 2021), a network inside each graph layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from starling.nn.initial import Draws
from starling.nn.layer import product
from starling.nn.view import View


class Dense(nn.Module):
    """h W + b of the destinations; the graph is not looked at."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.fan_in, self.fan_out, self.name = fan_in, fan_out, ""
        self.weight, self.bias = nn.Parameter(torch.empty(fan_in, fan_out)), nn.Parameter(torch.empty(fan_out))
        self.initialise(Draws(0, ""))

    @property
    def added_last(self) -> nn.Parameter:
        """The bias."""
        return self.bias

    def initialise(self, draws: Draws) -> None:
        """Glorot weights, zero bias."""
        draws.glorot("weight", self.weight)
        draws.zero(self.bias)

    def forward(self, view: View, h: Tensor) -> Tensor:
        """Rows of the destinations, transformed."""
        return product(view.destinations(h), self.weight) + self.bias


class NGNN(nn.Module):
    """A graph layer followed by `depth` dense layers, ReLU before each."""

    def __init__(self, layer: nn.Module, fan_out: int, depth: int) -> None:
        super().__init__()
        self.layer, self.inner = layer, nn.ModuleList(Dense(fan_out, fan_out) for _ in range(depth))

    @property
    def name(self) -> str:
        """The wrapped layer's name."""
        return str(self.layer.name)

    @name.setter
    def name(self, name: str) -> None:
        self.layer.name = name  # type: ignore[assignment]

    @property
    def added_last(self) -> nn.Parameter:
        """The network's last bias."""
        bias: nn.Parameter = self.inner[-1].bias  # type: ignore[assignment]
        return bias

    def forward(self, view: View, h: Tensor) -> Tensor:
        """The graph layer, then the network."""
        return self.onward(view, self.layer(view, h))

    def onward(self, view: View, h: Tensor) -> Tensor:
        """The network, row by row."""
        for dense in self.inner:
            h = dense(view, torch.relu(h))
        return h
