"""GraphSAGE (Hamilton et al. 2017): h W_own + reduce over neighbours(h) W_neighbour + b; reduce is mean, max or an LSTM."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from starling.core.errors import InputError
from starling.nn.excerpt import Excerpt
from starling.nn.gather import Copy
from starling.nn.initial import Draws, initialise, unfilled
from starling.nn.layer import Layer, Node, product, transform_first
from starling.nn.lstm import last_states
from starling.nn.ops.sums import two_products
from starling.nn.view import View


class SAGE(Layer):
    """The mean and max forms. Where all sources are destinations, both weights are one product.

    With `edge_weights` the mean is weighted: Σ w_e h_u / Σ w_e, over the weights of all in-edges in the whole graph.
    """

    row_by_row = True
    ends_with_bias = True

    def __init__(
        self, fan_in: int, fan_out: int, *, aggregate: Literal["mean", "max"] = "mean", edge_weights: bool = False
    ) -> None:
        if edge_weights and aggregate != "mean":
            raise InputError(
                f"Edge weights are for a mean over neighbours, got {aggregate}. Set aggregate=mean, or edge_weights=false."
            )
        super().__init__(fan_in, fan_out, "sum" if edge_weights else aggregate)
        self.edge_weights = edge_weights
        self.own = nn.Parameter(torch.empty(fan_in, fan_out))
        self.neighbour = nn.Parameter(torch.empty(fan_in, fan_out))
        self.bias = nn.Parameter(torch.empty(fan_out))
        self.initialise(Draws(0, ""))

    def initialise(self, draws: Draws) -> None:
        """Glorot weights, zero bias."""
        draws.glorot("own", self.own)
        draws.glorot("neighbour", self.neighbour)
        draws.zero(self.bias)

    def transform(self, view: View, h: Tensor) -> Node:
        """Multiply now where the reduction is linear and that is cheaper than after aggregating."""
        if self.reduce == "max" or not transform_first(view, h, self.fan_in, self.fan_out):
            return Node(h, h)
        destinations = view.destinations(h)
        if len(h) == len(destinations) and h.dtype == self.own.dtype:
            own, rows = two_products(h, self.own, self.neighbour)
            return Node(rows, own, multiplied=True)
        return Node(product(h, self.neighbour), product(destinations, self.own), multiplied=True)

    def gather(self, view: View, node: Node) -> Copy:
        """The neighbour's row as it is, or times its share of the weights."""
        if not self.edge_weights:
            return Copy()
        graph = view.graph
        if graph.edge_weight is None:
            raise InputError("Expected a weight for every edge, got a graph without edge weights. Turn edge_weights off.")
        return Copy(graph.edge_weight, row_scale=graph.weighted_mean_scale)

    def update(self, view: View, node: Node, aggregate: Tensor) -> Tensor:
        """Add the two products and the bias."""
        if node.multiplied:
            return aggregate.add_(node.own).add_(self.bias)
        out = torch.addmm(self.bias, view.destinations(node.own).to(self.own.dtype), self.own)
        return out.addmm_(aggregate, self.neighbour)


class LstmSAGE(SAGE):
    """The LSTM form: a row's neighbours, in edge order, are read by an LSTM whose last state is the aggregate.

    Rows of equal degree run together, without padding, so that a row's result does not depend on other rows (PyG pads to the
    largest degree of the batch and lets the LSTM run on over zeros; the two agree where all degrees are equal).
    """

    row_by_row, whole_lists = False, True

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__(fan_in, fan_out)
        self.lstm = unfilled(nn.LSTM, fan_in, fan_in, batch_first=True)
        initialise(self, 0)

    def forward(self, view: View, h: Tensor) -> Tensor:
        """As other layers, with the LSTM in place of a gather and a sum."""

        def states(piece: Excerpt, rows: Tensor) -> tuple[Tensor]:
            return (last_states(piece.graph, self.lstm, rows.to(self.neighbour.dtype)),)

        return self.update(view, Node(h, h), *view.on_whole_lists(h, states))
