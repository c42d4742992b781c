"""GCN (Kipf, Welling 2017): D^-1/2 (A + I) D^-1/2 h W + b, with the degrees of the whole graph.

Every node that has no self-loop in the graph gets one, of weight one; loops that the graph has stay what they are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from starling.core.errors import InputError
from starling.nn.gather import Copy
from starling.nn.initial import Draws
from starling.nn.layer import Layer, Node, product, transform_first
from starling.nn.view import View


class GCN(Layer):
    """A graph convolution; with `edge_weights` A holds the graph's weights and D their sums."""

    row_by_row = True
    ends_with_bias = True

    def __init__(self, fan_in: int, fan_out: int, *, edge_weights: bool = False) -> None:
        super().__init__(fan_in, fan_out, "sum")
        self.edge_weights = edge_weights
        self.weight = nn.Parameter(torch.empty(fan_in, fan_out))
        self.bias = nn.Parameter(torch.empty(fan_out))
        self.initialise(Draws(0, ""))

    def initialise(self, draws: Draws) -> None:
        """Glorot weights, zero bias."""
        draws.glorot("weight", self.weight)
        draws.zero(self.bias)

    def transform(self, view: View, h: Tensor) -> Node:
        """Multiply now where that is cheaper than after aggregating."""
        if not transform_first(view, h, self.fan_in, self.fan_out):
            return Node(h, h)
        rows = product(h, self.weight)
        return Node(rows, rows, multiplied=True)

    def gather(self, view: View, node: Node) -> Copy:
        """Symmetric normalisation, self-loop included."""
        return symmetric(view, self.edge_weights)

    def update(self, view: View, node: Node, aggregate: Tensor) -> Tensor:
        """Multiply unless it was done, add the bias."""
        if node.multiplied:
            return aggregate.add_(self.bias)
        return torch.addmm(self.bias, aggregate, self.weight)


def symmetric(view: View, edge_weights: bool) -> Copy:
    """D^-1/2 (A + I) D^-1/2 as a gather to be summed."""
    graph = view.graph
    if edge_weights and graph.edge_weight is None:
        raise InputError("Expected a weight for every edge, got a graph without edge weights. Turn edge_weights off.")
    scale = graph.weighted_gcn_scale if edge_weights else graph.gcn_scale
    rows = graph.row_prefix(scale)
    return Copy(graph.edge_weight if edge_weights else None, source_scale=scale, row_scale=rows, self_loop=True)
