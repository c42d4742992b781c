"""Attention layers: GAT (Veličković et al. 2018), GATv2 (Brody et al. 2022), and GAT-E, which lets edge attributes in.

Every node that has no self-loop gets one. Heads are concatenated, or averaged in a last layer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from starling.core.errors import InputError
from starling.nn.gather import Attention, Gather, PairAttention
from starling.nn.initial import Draws
from starling.nn.layer import Layer, Node, product
from starling.nn.ops.arrays import split_columns
from starling.nn.view import View


class Heads(Layer):
    """What the attention layers share: H heads of F columns, concatenated (fan_out = H · F) or averaged (fan_out = F)."""

    row_by_row = True
    ends_with_bias = True

    def __init__(
        self, fan_in: int, fan_out: int, heads: int, average: bool, self_loop: bool, slope: float, attention_dropout: float
    ) -> None:
        super().__init__(fan_in, fan_out, "softmax")
        if not average and fan_out % heads:
            raise InputError(f"Expected a width divisible by {heads} heads, got {fan_out}. Change hidden or heads.")
        self.heads, self.average, self.width = heads, average, fan_out if average else fan_out // heads
        self.self_loop, self.slope, self.attention_dropout = self_loop, slope, attention_dropout

    def drop(self) -> float:
        """The dropout of attention weights now."""
        return self.attention_dropout if self.training else 0.0

    def joined(self, aggregate: Tensor, bias: Tensor) -> Tensor:
        """Heads side by side, or their mean, plus the bias."""
        if self.average and self.heads > 1:
            aggregate = split_columns(aggregate, self.heads).mean(1)
        return aggregate + bias


class GAT(Heads):
    """z = h W; softmax over N(v) and v of LeakyReLU(source · z_u + target · z_v); Σ weight · z_u + b."""

    def __init__(
        self,
        fan_in: int,
        fan_out: int,
        *,
        heads: int = 4,
        average: bool = False,
        self_loop: bool = True,
        slope: float = 0.2,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__(fan_in, fan_out, heads, average, self_loop, slope, attention_dropout)
        self.weight = nn.Parameter(torch.empty(fan_in, heads * self.width))
        self.source = nn.Parameter(torch.empty(heads, self.width))
        self.target = nn.Parameter(torch.empty(heads, self.width))
        self.bias = nn.Parameter(torch.empty(fan_out))
        self.initialise(Draws(0, ""))

    def initialise(self, draws: Draws) -> None:
        """Glorot weights, zero bias."""
        for name in ("weight", "source", "target"):
            draws.glorot(name, getattr(self, name))
        draws.zero(self.bias)

    def transform(self, view: View, h: Tensor) -> Node:
        """One product for all heads."""
        rows = product(h, self.weight)
        return Node(rows, rows)

    def gather(self, view: View, node: Node) -> Gather:
        """Additive attention."""
        return Attention(self.source, self.target, self.slope, self.self_loop, dropout=self.drop(), name=self.name)

    def update(self, view: View, node: Node, aggregate: Tensor) -> Tensor:
        """Join the heads."""
        return self.joined(aggregate, self.bias)


class GATE(GAT):
    """GAT with edge attributes a_e in the attention and in the message.

    The score gains edge · (a_e W_edge) and the message a_e W_message. The message's part is linear, so the weighted sum of raw
    attributes is made first and multiplied after: nothing of size edges × width exists. A self-loop that is
    added has no attributes.
    """

    def __init__(
        self,
        fan_in: int,
        fan_out: int,
        edge_features: int,
        *,
        heads: int = 4,
        average: bool = False,
        self_loop: bool = True,
        slope: float = 0.2,
        attention_dropout: float = 0.0,
        edge_message: bool = True,
    ) -> None:
        super().__init__(
            fan_in,
            fan_out,
            heads=heads,
            average=average,
            self_loop=self_loop,
            slope=slope,
            attention_dropout=attention_dropout,
        )
        if edge_features < 1:
            raise InputError(
                "Expected edge attributes for GAT-E, got a graph without. Import it with edge attributes, or use gat."
            )
        self.edge_features = edge_features
        self.edge_weight = nn.Parameter(torch.empty(edge_features, heads * self.width))
        self.edge = nn.Parameter(torch.empty(heads, self.width))
        self.message = nn.Parameter(torch.empty(heads, edge_features, self.width)) if edge_message else None
        self.initialise(Draws(0, ""))

    def initialise(self, draws: Draws) -> None:
        """Glorot weights, zero bias."""
        super().initialise(draws)
        for name in ("edge_weight", "edge", "message"):
            parameter = getattr(self, name, None)
            if parameter is not None:
                draws.glorot(name, parameter)

    def gather(self, view: View, node: Node) -> Gather:
        """Additive attention with a term an edge."""
        attr = view.graph.edge_attr
        if attr is None or attr.shape[1] != self.edge_features:
            found = "none" if attr is None else f"{attr.shape[1]} columns"
            raise InputError(f"Expected edge attributes of {self.edge_features} columns, got {found}.")
        attr = attr.to(self.edge.dtype)
        by_head = (self.edge_weight.reshape(-1, self.heads, self.width) * self.edge).sum(-1)
        return Attention(
            self.source,
            self.target,
            self.slope,
            self.self_loop,
            edge_score=attr @ by_head,
            edge_rows=None if self.message is None else attr,
            dropout=self.drop(),
            name=self.name,
        )

    def update(self, view: View, node: Node, aggregate: Tensor) -> Tensor:
        """Multiply the summed attributes, head by head, and add them."""
        if self.message is None:
            return self.joined(aggregate, self.bias)
        columns = self.heads * self.width
        attributes = split_columns(aggregate[:, columns:], self.heads)
        message = torch.einsum("nha,haf->nhf", attributes, self.message).flatten(1)
        return self.joined(aggregate[:, :columns] + message, self.bias)


class GATv2(Heads):
    """Softmax over N(v) and v of vector · LeakyReLU(h_u W_source + h_v W_target); Σ weight · h_u W_source + b."""

    def __init__(
        self,
        fan_in: int,
        fan_out: int,
        *,
        heads: int = 4,
        average: bool = False,
        self_loop: bool = True,
        slope: float = 0.2,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__(fan_in, fan_out, heads, average, self_loop, slope, attention_dropout)
        columns = heads * self.width
        self.source, self.target = (nn.Parameter(torch.empty(fan_in, columns)) for _ in range(2))
        self.source_bias, self.target_bias = (nn.Parameter(torch.empty(columns)) for _ in range(2))
        self.vector = nn.Parameter(torch.empty(heads, self.width))
        self.bias = nn.Parameter(torch.empty(fan_out))
        self.initialise(Draws(0, ""))

    def initialise(self, draws: Draws) -> None:
        """Glorot weights, zero biases."""
        for name in ("source", "target", "vector"):
            draws.glorot(name, getattr(self, name))
        for bias in (self.source_bias, self.target_bias, self.bias):
            draws.zero(bias)

    def transform(self, view: View, h: Tensor) -> Node:
        """Both ends' products."""
        own = product(view.destinations(h), self.target) + self.target_bias
        return Node(product(h, self.source) + self.source_bias, own)

    def gather(self, view: View, node: Node) -> Gather:
        """Attention to pairs."""
        return PairAttention(self.vector, node.own, self.slope, self.self_loop, self.drop(), self.name)

    def update(self, view: View, node: Node, aggregate: Tensor) -> Tensor:
        """Join the heads."""
        return self.joined(aggregate, self.bias)
