"""What a model is: a module that turns views and input rows into outputs of the last view's destinations.

A model that can also run one layer at a time (`LayeredModel`) gets exact inference in bounded memory: all nodes through layer
0, then all through layer 1, and so on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from torch import Tensor, nn

from starling.core.errors import InputError
from starling.nn.view import View

Views: TypeAlias = View | Sequence[View]
"""One view for all layers (the whole graph), or one for each layer, outermost first (blocks)."""


class LayeredModel(nn.Module, ABC):
    """A model made of `layer_count` layers, of which the k-th reads the k-th view."""

    layer_count: int
    input_widths: tuple[int, ...] = ()
    """Columns of the rows that each layer reads; empty where a model does not say."""

    @abstractmethod
    def layer(self, index: int, view: View, h: Tensor) -> Tensor:
        """Layer `index` with its norm, activation and dropout: rows of the view's sources → rows of its destinations."""

    @abstractmethod
    def finish(self, view: View, outputs: list[Tensor]) -> Tensor:
        """Outputs from the rows that each layer gave for the last view's destinations; the last layer's come last."""

    @property
    def keeps_all(self) -> bool:
        """Whether `finish` reads every layer's rows (jumping knowledge) or only the last layer's."""
        return False

    def listed(self, views: Views) -> list[View]:
        """A view for each layer."""
        listed = [views] * self.layer_count if isinstance(views, View) else list(views)
        if len(listed) != self.layer_count:
            raise InputError(f"Expected a view for each of {self.layer_count} layers, got {len(listed)}.")
        return listed

    def forward(self, views: Views, x: Tensor) -> Tensor:
        """Input rows of the first view's sources → outputs of the last view's destinations."""
        listed = self.listed(views)
        outputs: list[Tensor] = []
        for index, view in enumerate(listed):
            x = self.layer(index, view, x)
            outputs.append(x)
            if not self.keeps_all:
                del outputs[:-1]
        last = listed[-1]
        return self.finish(last, [last.destinations(rows) for rows in outputs])
