"""A matrix for each node type: features of different widths become rows of one width before the first layer.

Rows arrive padded to the widest type's columns, since a step's rows are one matrix; a type's matrix reads only its own columns. A
type without features gives its nodes one row that is learnt, the type's bias.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from starling.core.errors import InputError
from starling.nn.initial import Draws
from starling.nn.view import View


class TypedInput(nn.Module):
    """x_v[: widths[t]] W_t + b_t for a node of type t."""

    def __init__(self, widths: Sequence[int], fan_out: int) -> None:
        super().__init__()
        self.widths, self.fan_out = tuple(widths), fan_out
        self.weights = nn.ParameterList(torch.empty(width, fan_out) for width in self.widths)
        self.bias = nn.Parameter(torch.empty(len(self.widths), fan_out))
        self.initialise(Draws(0, ""))

    def initialise(self, draws: Draws) -> None:
        """Glorot weights; biases, which are all that a type without features has, as of one column."""
        for number, weight in enumerate(self.weights):
            if len(weight):
                draws.glorot(f"weights/{number}", weight)
        draws.glorot("bias", self.bias)

    def forward(self, view: View, x: Tensor) -> Tensor:
        """Rows of any of the view's first sources [n, widest] → [n, fan_out]."""
        kinds = view.graph.node_type
        if kinds is None:
            raise InputError("Expected the type of every node for inputs by type, got a graph without node types.")
        kinds = kinds[: len(x)]
        x = x.to(self.bias.dtype)
        index, given = [], []
        for kind, (width, weight) in enumerate(zip(self.widths, self.weights, strict=True)):
            rows = torch.nonzero(kinds == kind)[:, 0]
            if len(rows) and width:
                index.append(rows)
                given.append(x.index_select(0, rows)[:, :width] @ weight)
        out = self.bias.index_select(0, kinds) + x[:0].sum()  # tied to the rows: their gradient may be waited for elsewhere
        return out.index_add(0, torch.cat(index), torch.cat(given)) if given else out
