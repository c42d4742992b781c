"""What a training step costs on a calibrated machine: seconds, memory held and bytes sent, layer by layer.

CM-GCN's cost function (plan/cost.py) with a machine's own rates, extended to every kind of layer (model_work.py) and to what
surrounds the sums: planning a batch, reading its features, moving weights. Sizes may be those of a real plan (`sizes_of_plan`) or
expected ones (expected_sizes.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from starling.core.errors import InputError
from starling.plan.batch import BatchPlan, Block
from starling.plan.calibration import Rates
from starling.plan.model_work import ATTENTION_KINDS, LayerShape, LayerSize, LayerWork, ModelShape, Product, layer_work

_FLOAT = 4
_OPTIMISER_BYTES = 28
"""Adam reads and writes weight, gradient and two moments of every parameter."""
_WEIGHT_COPIES = 5
"""Weight, gradient, two moments, and the best so far."""
_ELU = 6
"""Attention's activation takes an exponential, about as long as so many plain ones."""
_CACHE_BYTES = 4 << 20
"""Matrices above this size do not stay in a core's caches from one pass to the next."""
_EDGE_BYTES = 12
"""A source, an entry and a number of the transposed block."""
_ROW_BYTES = 24
"""Offsets both ways, and degrees."""


@dataclass(frozen=True)
class LayerPrice:
    """One layer of one worker's step. `sent` are bytes that its mirrors' rows take on the way here, each way once."""

    forward: float
    backward: float
    held: float
    sent_forward: float
    sent_backward: float

    @property
    def seconds(self) -> float:
        """Both ways."""
        return self.forward + self.backward


@dataclass(frozen=True)
class StepPrice:
    """One step of one worker: seconds by what they go into, bytes held at the peak, bytes received from other workers."""

    layers: tuple[LayerPrice, ...]
    planning: float
    """Searching and numbering the batch's edges and reading its features: beside training, but on the same cores."""
    updating: float
    """Loss and optimiser, and what a step costs however small it is."""
    held_bytes: float
    """Beyond the graph, the features and the program itself."""
    parameters: int

    @property
    def seconds(self) -> float:
        """All of it."""
        return sum(layer.seconds for layer in self.layers) + self.planning + self.updating

    @property
    def received_bytes(self) -> float:
        """Rows and gradients that come from other workers."""
        return sum(layer.sent_forward + layer.sent_backward for layer in self.layers)


@dataclass(frozen=True)
class StepKind:
    """How a step comes about.

    `planned`: its blocks are made for it and its features are read; else they are those of the whole graph, made once.
    `constant`: sums of input features are kept from step to step. `locality`: over which share of a block's sources the neighbours
    of one row and the next are spread; 1 is a graph in random order.
    """

    planned: bool
    constant: bool = False
    locality: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.locality <= 1:
            raise InputError(f"Expected a locality above 0 and up to 1, got {self.locality}.")


def price_step(model: ModelShape, sizes: Sequence[LayerSize], targets: float, rates: Rates, kind: StepKind) -> StepPrice:
    """The price of a step whose layers, outermost first, have these sizes."""
    if len(sizes) != len(model.layers):
        raise InputError(f"Expected the sizes of {len(model.layers)} layers, got {len(sizes)}.")
    priced = []
    for index, (shape, size) in enumerate(zip(model.layers, sizes, strict=True)):
        constant = kind.constant and (index == 0 or shape.kind == "sgc")
        work = layer_work(shape, size, first=index == 0 or shape.kind == "sgc", constant=constant)
        priced.append(_layer(shape, size, work, rates, kind))
    outputs = model.layers[-1].fan_out
    updating = rates.step + _OPTIMISER_BYTES * model.parameters / rates.memory_bandwidth + 2 * rates.lam * targets * outputs
    if model.head is not None:
        rows = LayerSize(targets, targets, 0)
        updating += _layer(model.head, rows, layer_work(model.head, rows, first=True), rates, kind).seconds
    fetched = sizes[0].sources - sizes[0].mirrors
    width, planning, inputs = model.layers[0].fan_in, 0.0, 0.0
    if kind.planned:
        taken, read = sum(size.edges for size in sizes), fetched * width
        planning = rates.overall * (rates.plan * taken + rates.read * read)
        inputs = sizes[0].sources * width * _FLOAT
    held = inputs + sum(layer.held for layer in priced) + _gradients(model, sizes) + _WEIGHT_COPIES * _FLOAT * model.parameters
    return StepPrice(tuple(priced), planning, updating, held, model.parameters)


def _fixed(shape: LayerShape, rates: Rates) -> float:
    """Seconds of a layer however small it is."""
    return rates.attention if shape.kind in ATTENTION_KINDS else rates.layer


def _layer(shape: LayerShape, size: LayerSize, work: LayerWork, rates: Rates, kind: StepKind) -> LayerPrice:
    forward = backward = 0.0
    for product in work.products:
        there, back = product_seconds(product, rates)
        forward += there
        backward += back
    forward += work.forward_sums * sum_seconds(size.destinations, size.edges, size.sources, work.columns, rates, kind.locality)
    backward += work.backward_sums * sum_seconds(
        size.sources, size.edges, size.destinations, work.columns, rates, kind.locality
    )
    forward += work.scores * rates.softmax / 2
    backward += work.scores * rates.softmax / 2
    given = size.destinations * shape.fan_out
    activations = _ELU if work.scores else 1
    forward += activations * _elementwise(rates, rates.gamma, given) + _elementwise(rates, rates.alpha, given)
    backward += _elementwise(rates, rates.eta, given) + _elementwise(rates, rates.alpha, given)
    forward += _elementwise(rates, rates.alpha, work.moved_forward)
    backward += _elementwise(rates, rates.alpha, work.moved_backward)
    held = _FLOAT * (work.kept + given)
    if kind.planned:
        held += _EDGE_BYTES * size.edges + _ROW_BYTES * (size.sources + size.destinations)
        if work.turned:
            backward += rates.transpose * size.edges
    sent = size.mirrors * work.pulled * _FLOAT
    forward, backward = (_fixed(shape, rates) / 2 + rates.overall * seconds for seconds in (forward, backward))
    return LayerPrice(forward, backward, held, sent, sent if work.pulled_backward else 0.0)


def product_seconds(product: Product, rates: Rates) -> tuple[float, float]:
    """A dense product, forward and backward. Its output and its matrix's gradient have `fan_out` columns, its input's `fan_in`."""
    output = product.multiply_adds * rates.beta_of(product.fan_in, product.fan_out)
    back = output + (product.multiply_adds * rates.beta_of(product.fan_out, product.fan_in) if product.backward > 1 else 0.0)
    return product.forward * output, back if product.backward else 0.0


def sum_seconds(rows: float, edges: float, sources: float, columns: float, rates: Rates, locality: float = 1.0) -> float:
    """One sparse product: `rows` rows, each the sum of its edges' rows of `columns` numbers among `sources`."""
    if not edges:
        return 0.0
    reach = sources * columns * _FLOAT * locality
    return rates.row * rows + edges * (rates.edge + columns * rates.spmm_of(reach))


def _elementwise(rates: Rates, seconds: float, numbers: float) -> float:
    """One pass over a matrix; one larger than caches is read from memory and written back."""
    large = numbers * _FLOAT > _CACHE_BYTES
    return numbers * (max(seconds, 2 * _FLOAT / rates.memory_bandwidth) if large else seconds)


def _gradients(model: ModelShape, sizes: Sequence[LayerSize]) -> float:
    """Gradients on their way back through one layer, at the widest: that of its output, of its sums and of its input."""
    return max(
        _FLOAT * (size.destinations * shape.fan_out + (size.sources + size.destinations) * max(shape.fan_in, shape.width))
        for shape, size in zip(model.layers, sizes, strict=True)
    )


def sizes_of_plan(plan: BatchPlan) -> tuple[LayerSize, ...]:
    """The sizes of a plan's blocks."""
    return tuple(LayerSize(block.sources, block.destinations, len(block.neighbours)) for block in plan.blocks)


def locality_of(block: Block) -> float:
    """The share of a block's sources that the neighbours of consecutive rows are spread over, from how far apart they are.

    Random neighbours are a third of all sources apart on average; ones within a window of w sources a third of w.
    """
    if len(block.neighbours) < 2 or not block.sources:
        return 1.0
    apart = np.abs(np.diff(block.neighbours.astype(np.int64))).mean()
    return float(min(1.0, max(3 * apart / block.sources, 1 / block.sources)))
