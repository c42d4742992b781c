"""A model of one's own, with a layer of one's own: starling train GRAPH --model examples/gated_model.py:GatedNet

A model file holds a torch module made as ``Class(features, classes, **settings)``; settings are what [model] of the config, or
``--set model.name=value``, gives beside the name. A `LayeredModel` runs under every strategy and is evaluated layer by layer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from starling.nn.gather import EdgeBlock, Messages
from starling.nn.layer import Layer, Node
from starling.nn.model import LayeredModel
from starling.nn.view import View


class Gate(nn.Module):
    """What travels along an edge: the source's row, as far as source and destination open a gate for it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(2 * width, width)

    def forward(self, source: Tensor, edges: EdgeBlock, destination: Tensor) -> Tensor:
        """Rows of both ends of some edges [B, F] → messages [B, F]."""
        return torch.sigmoid(self.score(torch.cat([source, destination], 1))) * source


class GatedLayer(Layer):
    """h W + b + the mean of gated neighbours; any Python function over edges works, in blocks of edges."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__(fan_in, fan_out, "mean")
        self.linear, self.gate = nn.Linear(fan_in, fan_out), Gate(fan_out)

    def transform(self, view: View, h: Tensor) -> Node:
        """What a node does with its row before anybody reads it."""
        rows = self.linear(h)
        return Node(rows, view.destinations(rows))

    def gather(self, view: View, node: Node) -> Messages:
        """What travels along an edge."""
        return Messages(self.gate)

    def update(self, view: View, node: Node, aggregate: Tensor) -> Tensor:
        """A node's new row."""
        return node.own + aggregate


class GatedNet(LayeredModel):
    """Two gated layers."""

    def __init__(self, features: int, classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.layer_count = 2
        self.layers = nn.ModuleList([GatedLayer(features, hidden), GatedLayer(hidden, classes)])

    def layer(self, index: int, view: View, h: Tensor) -> Tensor:
        """One layer and what follows it."""
        h = self.layers[index](view, h)
        return torch.relu(h) if index == 0 else h

    def finish(self, view: View, outputs: list[Tensor]) -> Tensor:
        """The last layer's rows are the outputs."""
        return outputs[-1]
