"""RGCN (Schlichtkrull et al. 2018): h W_root + Σ over relations r of mean over N_r(h) W_r + b.

The matrices are free, combinations of a few bases (`bases`), or block-diagonal (`blocks`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from starling.core.errors import InputError
from starling.nn.gather import ByRelation
from starling.nn.initial import Draws
from starling.nn.layer import Layer, Node, product
from starling.nn.view import View


class RGCN(Layer):
    """A relational convolution."""

    row_by_row = True
    ends_with_bias = True

    def __init__(self, fan_in: int, fan_out: int, relations: int, *, bases: int = 0, blocks: int = 0) -> None:
        super().__init__(fan_in, fan_out, "mean")
        if relations < 1:
            raise InputError("Expected edge types for RGCN, got a graph without. Import it with edge types, or use gcn.")
        if bases and blocks:
            raise InputError(f"Expected bases or blocks for RGCN, got both ({bases} and {blocks}). Set one of them to 0.")
        if blocks and (fan_in % blocks or fan_out % blocks):
            raise InputError(f"Expected widths divisible by {blocks} blocks, got {fan_in} and {fan_out}. Choose other blocks.")
        shape = (blocks, fan_in // blocks, fan_out // blocks) if blocks else (fan_in, fan_out)
        self.weight = nn.Parameter(torch.empty(bases or relations, *shape))
        self.mix = nn.Parameter(torch.empty(relations, bases)) if bases else None
        self.root = nn.Parameter(torch.empty(fan_in, fan_out))
        self.bias = nn.Parameter(torch.empty(fan_out))
        self.initialise(Draws(0, ""))

    def initialise(self, draws: Draws) -> None:
        """Glorot weights, zero bias."""
        draws.glorot("weight", self.weight)
        if self.mix is not None:
            draws.glorot("mix", self.mix)
        draws.glorot("root", self.root)
        draws.zero(self.bias)

    def transform(self, view: View, h: Tensor) -> Node:
        """Rows travel as they are; whether a relation's matrix comes before its sum or after is decided by cost."""
        return Node(h.to(self.root.dtype), view.destinations(h))

    def gather(self, view: View, node: Node) -> ByRelation:
        """The matrix of each relation."""
        return ByRelation(self.weight, self.mix)

    def update(self, view: View, node: Node, aggregate: Tensor) -> Tensor:
        """Add the root's product and the bias."""
        return aggregate + product(node.own, self.root) + self.bias
