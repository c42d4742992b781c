"""SGC (Wu et al. 2019): K hops of D^-1/2 (A + I) D^-1/2, then one linear layer. Hops of constant features are computed once."""

from __future__ import annotations

from torch import Tensor, nn

from starling.nn.layers.dense import Dense
from starling.nn.layers.gcn import symmetric
from starling.nn.model import LayeredModel
from starling.nn.view import View


class SGC(LayeredModel):
    """Simplified graph convolution of `hops` hops."""

    def __init__(self, features: int, classes: int, hops: int, *, edge_weights: bool = False) -> None:
        super().__init__()
        self.layer_count, self.edge_weights = hops, edge_weights
        self.input_widths = (features,) * hops
        self.linear: nn.Module = Dense(features, classes)

    def layer(self, index: int, view: View, h: Tensor) -> Tensor:
        """One hop."""
        return view.aggregate(symmetric(view, self.edge_weights), "sum", h)

    def finish(self, view: View, outputs: list[Tensor]) -> Tensor:
        """The linear layer."""
        result: Tensor = self.linear(view, outputs[-1])
        return result
