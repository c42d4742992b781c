"""Bytes that a step computes with: what every layer keeps for its gradient, and what it needs while it runs.

Forward, a layer has what all before it keep and its own rows; backward, also gradients, while those of later layers are gone. The
peak is the largest of these moments. Rows are float32. Formulas follow nn/layers and nn/ops line by line.
"""

from __future__ import annotations

from dataclasses import dataclass

from starling.plan.forecast.model import ATTENTION, ForecastModel, product_first
from starling.plan.forecast.sizes import StepSize
from starling.plan.model_work import LayerShape, LayerSize

FLOAT = 4


@dataclass(frozen=True)
class Moments:
    """Numbers a layer keeps until its gradient is made, needs while it runs forward, and while it runs backward."""

    kept: float
    forward: float
    backward: float


def step_bytes(model: ForecastModel, step: StepSize, *, kept_sums: bool) -> float:
    """The peak of one forward and backward pass, beside its inputs; `kept_sums`: the first layer's sums are there already."""
    moments = [
        _moments(layer, size, first=index == 0, kept_sums=kept_sums and index == 0, dropout=model.dropout > 0)
        for index, (layer, size) in enumerate(zip(model.layers, step.layers, strict=True))
    ]
    held = peak = 0.0
    for layer in moments:
        peak = max(peak, held + layer.forward)
        held += layer.kept
    outputs = step.layers[-1].destinations * model.classes
    peak = max(peak, held + outputs + 4 * step.targets * model.classes)
    for layer in reversed(moments):
        peak = max(peak, held + layer.backward)
        held -= layer.kept
    return FLOAT * peak


def pass_bytes(model: ForecastModel, size: LayerSize, *, kept_sums: bool) -> float:
    """The peak of one pass without gradients over all rows, layer after layer, beside the features."""
    peak = before = 0.0
    for index, layer in enumerate(model.layers):
        moments = _moments(layer, size, first=index == 0, kept_sums=kept_sums and index == 0, training=False)
        peak = max(peak, before + moments.forward)
        before = size.destinations * layer.fan_out
    return FLOAT * peak


def turned_bytes(model: ForecastModel, size: LayerSize) -> float:
    """Bytes of a layer's edges the other way round, for the backward pass."""
    return 8 * size.edges + 8 * size.sources if model.turns_edges else 0.0


def _moments(
    layer: LayerShape, size: LayerSize, *, first: bool, kept_sums: bool, dropout: bool = False, training: bool = True
) -> Moments:
    if layer.kind == "rgat":
        return _relation_attention(layer, size, first=first, dropout=dropout)
    if layer.kind in ATTENTION:
        return _attention(layer, size, first=first, dropout=dropout)
    sources, rows, fan_in = size.sources, size.destinations, layer.fan_in
    out, sums = rows * layer.fan_out, 0.0 if kept_sums else rows * fan_in
    into = 0.0 if first else sources * fan_in  # input features need no gradient
    again = out if dropout else 0.0
    if layer.kind in ("gcn", "sage"):
        if product_first(layer, size, first=first, kept_sums=kept_sums, training=training):
            products = sources * layer.fan_out + (out if layer.kind == "sage" else 0.0)
            return Moments(out, products + out + again, 2 * out + sources * layer.fan_out + into)
        own = 2 if layer.kind == "sage" else 1  # gradients of the sums, and of a row's own product
        back = out + (0.0 if first else own * (rows * fan_in + into))
        return Moments(sums + out, sums + out + again, max(2 * out, back))
    if layer.kind == "gin":
        kept = sums + rows * fan_in + 2 * out
        return Moments(kept, kept + out + again, 3 * out + 2 * rows * fan_in + 2 * into)
    if layer.kind == "sgc":
        return Moments(sums, 2 * rows * fan_in, 0.0)
    if layer.kind == "rgcn":
        pairs = min(rows * layer.relations, size.edges) * (fan_in + layer.fan_out)
        return Moments(pairs + 2 * out, pairs + 3 * out + again, pairs + 3 * out + 2 * into)
    return Moments(out, out + again, 2 * out + into)  # mlp


def _relation_attention(layer: LayerShape, size: LayerSize, *, first: bool, dropout: bool) -> Moments:
    """Attention between (source, relation) pairs: each has its row gathered, and multiplied."""
    rows, scores, columns = size.destinations, size.edges * layer.heads, layer.width
    pairs, targets = (min(size.edges, count * layer.relations) for count in (size.sources, rows))
    out = rows * layer.fan_out
    kept = pairs * (layer.fan_in + columns) + targets * layer.fan_in + rows * columns + 2 * out + 2 * scores
    kept += 2 * (pairs + targets) * layer.heads
    back = 2 * rows * columns + 3 * pairs * columns + pairs * layer.fan_in + 3 * scores
    back += 0.0 if first else (targets + 2 * size.sources) * layer.fan_in
    return Moments(kept, kept + scores + (out if dropout else 0.0), back)


def _attention(layer: LayerShape, size: LayerSize, *, first: bool, dropout: bool) -> Moments:
    sources, rows, scores, columns = size.sources, size.destinations, size.edges * layer.heads, layer.width
    out = rows * layer.fan_out
    beside = 2 * rows * layer.heads * layer.edge_features  # sums of attributes, and their gradient
    given = scores if layer.edge_features else 0.0  # what attributes add to scores
    kept = sources * columns + rows * columns + out + scores + 2 * (sources + rows) * layer.heads + beside + given
    kept += rows * columns if layer.kind == "gatv2" else 0.0
    back = 2 * rows * columns + 3 * sources * columns + 2 * scores + 2 * given + 2 * beside
    back += 0.0 if first else sources * layer.fan_in
    return Moments(kept, kept + scores + (out if dropout else 0.0), back)
