"""GIN (Xu et al. 2019): MLP((1 + ε) h_v + Σ over neighbours h_u)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from starling.nn.gather import Copy
from starling.nn.initial import Draws, initialise, unfilled
from starling.nn.layer import Layer, Node
from starling.nn.view import View


class GIN(Layer):
    """Sum aggregation under a two-layer network; ε is trained."""

    row_by_row = True

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__(fan_in, fan_out, "sum")
        self.epsilon = nn.Parameter(torch.zeros(1))
        self.first, self.second = unfilled(nn.Linear, fan_in, fan_out), unfilled(nn.Linear, fan_out, fan_out)
        initialise(self, 0)

    def initialise(self, draws: Draws) -> None:
        """ε starts at zero; the network fills itself."""
        draws.zero(self.epsilon)

    @property
    def added_last(self) -> nn.Parameter:
        """The network's last bias."""
        return self.second.bias

    def transform(self, view: View, h: Tensor) -> Node:
        """Rows travel as they are."""
        return Node(h, h)

    def gather(self, view: View, node: Node) -> Copy:
        """The neighbour's row as it is."""
        return Copy()

    def update(self, view: View, node: Node, aggregate: Tensor) -> Tensor:
        """The network over the weighted sum."""
        mixed = torch.addcmul(aggregate, 1 + self.epsilon, view.destinations(node.own).to(aggregate.dtype))
        result: Tensor = self.second(torch.relu(self.first(mixed)))
        return result
