"""The NN-TGAR contract (GraphTheta §3.1): transform → gather → sum → apply.

A layer's `forward` is these stages and nothing else. The fifth stage, reduce, is the training loop's: how gradients of many
workers become one. `apply` is called `update` here, since torch's modules have another `apply`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from starling.nn.gather import Gather, Reduce
from starling.nn.row_work import Node
from starling.nn.view import View
from starling.plan.linear_work import LinearWork

__all__ = ["Layer", "Node", "product", "transform_first"]


class Layer(nn.Module, ABC):
    """One graph layer, `fan_in` columns in, `fan_out` columns out."""

    row_by_row: ClassVar[bool] = False
    """True where `transform` and `update` give each row by itself, of a node reading the destinations' `own` alone: then a team
    may call them for some rows at a time, as soon as these are there."""
    ends_with_bias: ClassVar[bool] = False
    """True where `bias` is added, as it is, to every row that `update` gives."""
    whole_lists: bool = False
    """True where what comes along a row's in-edges cannot be joined from pieces, so that one worker must have all of them."""

    def __init__(self, fan_in: int, fan_out: int, reduce: Reduce) -> None:
        super().__init__()
        self.fan_in, self.fan_out = fan_in, fan_out
        self.reduce: Reduce = reduce
        self.name = ""
        """Names this layer's streams of random numbers; the stack sets it."""

    @property
    def added_last(self) -> nn.Parameter | None:
        """What is added to every row at the end, which a batch norm behind takes away again."""
        bias: nn.Parameter | None = self.bias if self.ends_with_bias else None  # type: ignore[assignment]
        return bias

    @abstractmethod
    def transform(self, view: View, h: Tensor) -> Node:
        """NN-Transform: what each node does with its row before anybody reads it."""

    @abstractmethod
    def gather(self, view: View, node: Node) -> Gather:
        """NN-Gather: what travels along an edge."""

    @abstractmethod
    def update(self, view: View, node: Node, aggregate: Tensor) -> Tensor:
        """NN-Apply: a destination's new row from its own and the aggregate [outputs, F']."""

    def forward(self, view: View, h: Tensor) -> Tensor:
        """Rows of the sources [owned, fan_in] → rows of the destinations [outputs, fan_out]."""
        node = self.transform(view, h)
        return self.update(view, node, view.aggregate(self.gather(view, node), self.reduce, node.rows))


def product(h: Tensor, weight: Tensor) -> Tensor:
    """h @ weight, with bfloat16 features widened first."""
    return h.to(weight.dtype) @ weight if h.dtype == torch.bfloat16 else h @ weight


def transform_first(view: View, h: Tensor, fan_in: int, fan_out: int) -> bool:
    """Whether to multiply before aggregating a linear layer: whichever reads and multiplies less, forward and backward.

    Depends only on numbers that all workers share, since what they send one another has the width chosen here.
    """
    size, backward = view.size, torch.is_grad_enabled()
    work = LinearWork(size.edges, size.sources, size.destinations, fan_in, fan_out, fan_in * fan_out)
    passes = 0 if view.is_constant(h) else 2 if backward and h.requires_grad else 1
    return work.product_first(backward=backward, passes=passes)
