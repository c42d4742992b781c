"""Layers on top of one another, with what models have in common as options: norm, residual, jumping knowledge, dropout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from starling.core.manifest import Record
from starling.nn.dropout import dropout
from starling.nn.layer import Layer
from starling.nn.layers.dense import NGNN, Dense
from starling.nn.model import LayeredModel, Views
from starling.nn.norm import Norm, make_norm
from starling.nn.row_work import Node, RowWork
from starling.nn.view import View

Activation = Literal["relu", "elu", "gelu", "tanh", "none"]
Probability = Annotated[float, Field(ge=0, lt=1)]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "elu": functional.elu_,
    "gelu": functional.gelu,
    "tanh": torch.tanh_,
    "none": lambda h: h,
}
"""In place where there is such a form: layers give fresh rows that nobody else reads, so there need be no second copy."""


class StackSettings(Record):
    """What every model can be asked for."""

    layers: Annotated[int, Field(ge=1)] = 2
    hidden: Annotated[int, Field(ge=1)] = 128
    dropout: Probability = 0.0
    """Of the rows between layers."""
    input_dropout: Probability = 0.0
    """Of the input features; with 0, aggregates of constant features are computed once."""
    norm: Norm = "none"
    residual: bool = False
    jump: Literal["none", "cat", "max"] = "none"
    """Jumping knowledge (Xu et al. 2018): a last linear layer over all layers' rows."""
    activation: Activation = "relu"
    inner: Annotated[int, Field(ge=0)] = 0
    """NGNN's dense layers inside each graph layer."""
    by_type: bool = False
    """A matrix for each node type makes `hidden` columns of its features; always so where types have features of their own."""


LayerBuilder = Callable[[int, int, bool], nn.Module]
"""(fan_in, fan_out, last) → a module called with (view, h)."""


class Stack(LayeredModel):
    """Layer → norm → residual → activation → dropout, for every layer but the last, which gives the outputs.

    With jumping knowledge all layers are hidden ones, and a linear layer over their rows gives the outputs. `input` makes `hidden`
    columns out of features before the first layer.
    """

    def __init__(
        self, features: int, classes: int, settings: StackSettings, build: LayerBuilder, input: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.settings, self.layer_count, self.input = settings, settings.layers, input
        jumping = settings.jump != "none"
        hidden = settings.hidden
        widths = [features if input is None else hidden] + [hidden] * (settings.layers - 1) + [hidden if jumping else classes]
        self.input_widths = tuple(widths[:-1])
        self.graph_layers, self.norms, self.skips = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for index in range(settings.layers):
            fan_in, fan_out, last = widths[index], widths[index + 1], index == settings.layers - 1 and not jumping
            layer = build(fan_in, fan_out, last)
            layer = NGNN(layer, fan_out, settings.inner) if settings.inner and not last else layer
            layer.name = f"layer-{index}"  # type: ignore[assignment]
            self.graph_layers.append(layer)
            self.norms.append(nn.Identity() if last else make_norm(settings.norm, fan_out) or nn.Identity())
            if settings.norm == "batch" and not last and layer.added_last is not None:
                # Its gradient is nothing but rounding, which Adam would make steps of: scores would differ from run to run.
                layer.added_last.requires_grad_(False)
            skips = settings.residual and not last
            self.skips.append(Dense(fan_in, fan_out) if skips and fan_in != fan_out else nn.Identity())
        self.head = Dense(hidden * (settings.layers if settings.jump == "cat" else 1), classes) if jumping else None

    @property
    def keeps_all(self) -> bool:
        """True with jumping knowledge."""
        return self.head is not None

    def layer(self, index: int, view: View, h: Tensor) -> Tensor:
        """One layer and what follows it."""
        h = self._entered(view, h) if index == 0 else h
        return self._followed(index, view, self.graph_layers[index](view, h), h)

    def forward(self, views: Views, x: Tensor) -> Tensor:
        """All layers; what lies between two aggregations is given to the view as one piece of work, where it is row by row."""
        listed = self.listed(views)
        bare = (layer.layer if isinstance(layer, NGNN) else layer for layer in self.graph_layers)
        layers = [layer for layer in bare if isinstance(layer, Layer) and layer.row_by_row]
        if len(layers) < self.layer_count or self.settings.norm == "batch":
            return super().forward(listed, x)
        node, outputs = self._transformed(layers[0], listed[0], self._entered(listed[0], x)), []
        for index, (view, layer) in enumerate(zip(listed, layers, strict=True)):
            work, whole = self._until_next(index, listed, layers)
            node = view.aggregate_then(layer.gather(view, node), layer.reduce, node, work)
            if not whole:
                node = self._transformed(layers[index + 1], listed[index + 1], node.rows)
            if self.keeps_all:
                outputs.append(node.rows if node.input is None else node.input)
        return self.finish(listed[-1], [listed[-1].destinations(rows) for rows in outputs or [node.rows]])

    def _until_next(self, index: int, views: list[View], layers: list[Layer]) -> tuple[RowWork, bool]:
        """What follows the aggregation of layer `index`, and whether that is all up to the next one.

        The next layer's transformation is part of it where this layer's rows are all rows, and destinations, of the next.
        """
        view, layer, graph_layer = views[index], layers[index], self.graph_layers[index]
        last = index == self.layer_count - 1
        whole = last or views[index + 1].graph.outputs == view.graph.outputs

        def run(first: int, node: Node, aggregate: Tensor) -> Node:
            h = layer.update(view, node, aggregate)
            h = graph_layer.onward(view, h) if isinstance(graph_layer, NGNN) else h
            h = self._followed(index, view, h, node.input, first)
            return Node(h, h) if last or not whole else self._transformed(layers[index + 1], views[index + 1], h)

        modules = (graph_layer, self.norms[index], self.skips[index], *([] if last else [layers[index + 1]]))
        reader = views[index + 1] if whole and not last else None
        return RowWork(run, modules, reader, shows_input=self.keeps_all), whole

    def _transformed(self, layer: Layer, view: View, h: Tensor) -> Node:
        """A layer's input, which residuals and jumping knowledge read again."""
        node = layer.transform(view, h)
        return replace(node, input=h) if self.settings.residual or self.keeps_all else node

    def _entered(self, view: View, x: Tensor) -> Tensor:
        """The first layer's input rows."""
        if self.input is not None:
            h: Tensor = self.input(view, x)
            return h
        return dropout(view, x, self.settings.input_dropout, "input") if self.training else x

    def _followed(self, index: int, view: View, h: Tensor, before: Tensor | None, first: int = 0) -> Tensor:
        """What follows a layer, for its rows from `first` on; `before` are the rows that it read."""
        settings, name = self.settings, f"layer-{index}"
        if index == self.layer_count - 1 and self.head is None:
            return h
        norm, skip = self.norms[index], self.skips[index]
        if not isinstance(norm, nn.Identity):
            h = norm(view, h)
        if settings.residual:
            assert before is not None
            h = h + (skip(view, before) if isinstance(skip, Dense) else view.destinations(before))
        probability = settings.dropout if self.training else 0.0
        if settings.activation == "relu" and probability:
            return dropout(view, h, probability, name, relu=True, first=first)
        return dropout(view, _ACTIVATIONS[settings.activation](h), probability, name, first=first)

    def finish(self, view: View, outputs: list[Tensor]) -> Tensor:
        """The last layer's rows, or the linear layer over all layers' rows."""
        if self.head is None:
            return outputs[-1]
        joined = torch.cat(outputs, 1) if self.settings.jump == "cat" else torch.stack(outputs).amax(0)
        result: Tensor = self.head(view, joined)
        return result
