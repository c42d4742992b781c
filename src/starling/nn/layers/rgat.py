"""RGAT (Busbridge et al. 2019): attention over edges of many relations, with a matrix and attention vectors for each.

The softmax is over all of a node's in-edges (`across`, the paper's ARGAT) or over those of each relation, whose sums are then added
(`within`, WIRGAT). To the paper's layer a matrix for the row itself is added, as in RGCN: nodes without in-edges keep their row.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from starling.core.errors import InputError
from starling.nn.gather import RelationAttention
from starling.nn.initial import Draws
from starling.nn.layer import Node, product
from starling.nn.layers.gat import Heads
from starling.nn.view import View


class RGAT(Heads):
    """z_u^r = h_u W_r; softmax of LeakyReLU(source_r · z_u^r + target_r · z_v^r); h_v W_root + Σ weight · z_u^r + b."""

    def __init__(
        self,
        fan_in: int,
        fan_out: int,
        relations: int,
        *,
        heads: int = 4,
        average: bool = False,
        softmax: Literal["across", "within"] = "across",
        bases: int = 0,
        slope: float = 0.2,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__(fan_in, fan_out, heads, average, False, slope, attention_dropout)
        if relations < 1:
            raise InputError("Expected edge types for RGAT, got a graph without. Import it with edge types, or use gat.")
        self.within = self.whole_lists = softmax == "within"
        self.weight = nn.Parameter(torch.empty(bases or relations, fan_in, heads * self.width))
        self.mix = nn.Parameter(torch.empty(relations, bases)) if bases else None
        self.source = nn.Parameter(torch.empty(relations, heads, self.width))
        self.target = nn.Parameter(torch.empty(relations, heads, self.width))
        self.root = nn.Parameter(torch.empty(fan_in, fan_out))
        self.bias = nn.Parameter(torch.empty(fan_out))
        self.initialise(Draws(0, ""))

    def initialise(self, draws: Draws) -> None:
        """Glorot weights, zero bias."""
        for name in ("weight", "mix", "source", "target", "root"):
            parameter = getattr(self, name)
            if parameter is not None:
                draws.glorot(name, parameter)
        draws.zero(self.bias)

    def transform(self, view: View, h: Tensor) -> Node:
        """Rows travel as they are, once for all relations."""
        return Node(h.to(self.root.dtype), view.destinations(h))

    def gather(self, view: View, node: Node) -> RelationAttention:
        """Additive attention with the weights of each relation."""
        weight = self.weight if self.mix is None else torch.einsum("rb,bio->rio", self.mix, self.weight)
        return RelationAttention(weight, self.source, self.target, self.slope, self.within, self.drop(), self.name)

    def update(self, view: View, node: Node, aggregate: Tensor) -> Tensor:
        """Join the heads, add the row's own product."""
        return self.joined(aggregate, self.bias) + product(node.own, self.root)
