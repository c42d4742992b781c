"""A matrix for each node type: features of different widths become rows of one width before the first layer.

A row's last column is the code of its type, the columns before it are the type's features and then zeros, so that rows of all types
are one matrix wherever they go (`engine/typed_features.py`). A type without features gives its nodes one learnt row, its bias.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from starling.nn.dropout import dropout
from starling.nn.initial import Draws
from starling.nn.view import View


class TypedInput(nn.Module):
    """x_v[: widths[t]] W_t + b_t for a node of type t; `input_dropout` is of the features."""

    def __init__(self, widths: Sequence[int], fan_out: int, input_dropout: float = 0.0) -> None:
        super().__init__()
        self.widths, self.fan_out, self.input_dropout = tuple(widths), fan_out, input_dropout
        self.weights = nn.ParameterList(torch.empty(width, fan_out) for width in self.widths)
        self.bias = nn.Parameter(torch.empty(len(self.widths), fan_out))
        self.initialise(Draws(0, ""))

    def initialise(self, draws: Draws) -> None:
        """Glorot weights; biases, which are all that a type without features has, as if they were a matrix."""
        for number, weight in enumerate(self.weights):
            if len(weight):
                draws.glorot(f"weights/{number}", weight)
        draws.glorot("bias", self.bias)

    def forward(self, view: View, x: Tensor) -> Tensor:
        """Rows of the view's first sources [n, widest + 1] → [n, fan_out]."""
        kinds, x = x[:, -1].detach().long(), x[:, :-1].to(self.bias.dtype)
        if self.training and self.input_dropout:
            x = dropout(view, x, self.input_dropout, "input")
        index, given = [], []
        for kind, (width, weight) in enumerate(zip(self.widths, self.weights, strict=True)):
            rows = torch.nonzero(kinds == kind)[:, 0]
            if len(rows) and width:
                index.append(rows)
                given.append(x[:, :width].index_select(0, rows) @ weight)
        out = self.bias.index_select(0, kinds) + x[:0].sum()  # tied to rows that are learnt, also where none are here
        return out.index_add(0, torch.cat(index), torch.cat(given)) if given else out
