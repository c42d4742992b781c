"""A model as work: the dense products, sparse products and scores that each of its layers takes, forward and backward.

The kinds of layers are those of nn/registry.py. Numbers are those of one training step; whether a linear layer multiplies or sums
first is decided by the same rule as in training (`linear_work.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starling.core.errors import InputError, nearest
from starling.plan.linear_work import LinearWork

Kind = Literal["gcn", "sage", "sage-max", "sage-lstm", "gat", "gatv2", "gate", "rgat", "rgcn", "gin", "sgc", "mlp"]
KINDS = ("gcn", "sage", "sage-max", "sage-lstm", "gat", "gatv2", "gate", "rgat", "rgcn", "gin", "sgc", "mlp")

_ATTENTION_PASSES = {"gat": 3, "gate": 3, "rgat": 3, "gatv2": 6}
"""Times that the rows of all edges are read: sum, its gradient, weights' gradient; for pairs the scores and their gradients too."""
ATTENTION_KINDS = frozenset(_ATTENTION_PASSES)
_MAX_PASSES = 2
"""A maximum compares and keeps the winner, which costs two sums."""
_LSTM_GATES = 4
_OWN_ROWS = 3
"""A row that is read both as a neighbour's and as one's own has two gradients: one is spread over zeros, and both are added."""


@dataclass(frozen=True)
class LayerSize:
    """Rows and edges of one layer of a step; `mirrors` are sources whose rows come from other workers. May be expected values."""

    sources: float
    destinations: float
    edges: float
    mirrors: float = 0.0


@dataclass(frozen=True)
class LayerShape:
    """One layer of a model. `fan_out` is what the next layer reads; heads of attention are inside it, or averaged."""

    kind: Kind
    fan_in: int
    fan_out: int
    heads: int = 1
    average: bool = False
    relations: int = 1
    edge_features: int = 0

    @property
    def width(self) -> int:
        """Columns of what attention sums: all heads side by side."""
        return self.fan_out * self.heads if self.average else self.fan_out

    @property
    def parameters(self) -> int:
        """Trainable numbers."""
        one = self.fan_in * self.fan_out
        attention = self.fan_in * self.width + 2 * self.width
        counts = {
            "gcn": one,
            "sage": 2 * one,
            "sage-max": 2 * one,
            "sage-lstm": 2 * one + 2 * _LSTM_GATES * self.fan_in * (self.fan_in + 1),
            "gat": attention,
            "gate": attention + self.edge_features * 2 * self.width,
            "gatv2": 2 * attention,
            "rgat": self.relations * attention + one,
            "rgcn": (self.relations + 1) * one,
            "gin": one + self.fan_out**2 + self.fan_out,
            "sgc": 0,
            "mlp": one,
        }
        return counts[self.kind] + (0 if self.kind == "sgc" else self.fan_out)


@dataclass(frozen=True)
class Product:
    """A dense product of `rows` rows with a matrix, done `passes` times: for the output, the matrix and perhaps the input."""

    rows: float
    fan_in: int
    fan_out: int
    forward: int = 1
    backward: int = 2

    @property
    def multiply_adds(self) -> float:
        """Of one pass."""
        return self.rows * self.fan_in * self.fan_out


@dataclass(frozen=True)
class LayerWork:
    """What one layer takes in a step. `pulled` are columns that mirrors' rows travel with, 0 where nothing is sent."""

    products: tuple[Product, ...]
    columns: float
    """Columns of the rows that edges read."""
    forward_sums: float
    """Times that all edges read such a row in the forward pass."""
    backward_sums: float
    scores: float
    """Edges times heads of attention."""
    turned: bool
    """Whether the backward pass needs the edges the other way round."""
    kept: float
    """Numbers that stay in memory from the forward pass to the backward pass, beyond the output."""
    pulled: float
    pulled_backward: bool
    moved_forward: float = 0.0
    """Numbers that are read and written one by one beside the output's own: rows mixed, copied, added up."""
    moved_backward: float = 0.0


def layer_work(shape: LayerShape, size: LayerSize, *, first: bool = False, constant: bool = False) -> LayerWork:
    """The work of one layer in training. `first`: its input needs no gradient; `constant`: and its sums are kept."""
    if shape.kind not in KINDS:
        raise InputError(f"There is no layer '{shape.kind}'. {nearest(shape.kind, KINDS)}")
    if shape.kind in ("gcn", "sage"):
        return _linear(shape, size, first, constant)
    if shape.kind in _ATTENTION_PASSES:
        return _attention(shape, size, first)
    return _summed_first(shape, size, first, constant)


def _linear(shape: LayerShape, size: LayerSize, first: bool, constant: bool) -> LayerWork:
    """GCN and SAGE's mean: the product before the sum or after, whichever is less."""
    fan_in, fan_out = shape.fan_in, shape.fan_out
    work = LinearWork(round(size.edges), round(size.sources), round(size.destinations), fan_in, fan_out, fan_in * fan_out)
    ahead = work.product_first(backward=True, passes=0 if constant else 1 if first else 2)
    back = 1 if first else 2
    rows = size.sources - size.mirrors if ahead else size.destinations
    products = [Product(rows, fan_in, fan_out, backward=back)]
    if shape.kind == "sage":
        products.append(Product(size.destinations, fan_in, fan_out, backward=back))
    apart = shape.kind == "sage" and not first and not (ahead and size.sources == size.destinations)
    moved = _OWN_ROWS * size.sources * fan_in if apart else 0.0
    if ahead:
        beside = size.destinations * fan_out if shape.kind == "sage" else 0.0
        kept = size.sources * fan_out
        return LayerWork(tuple(products), fan_out, 1, 1, 0, True, kept, fan_out, True, beside, moved)
    forward, back, kept, pulled = 0 if constant else 1, 0 if first else 1, size.destinations * fan_in, 0 if first else fan_in
    return LayerWork(tuple(products), fan_in, forward, back, 0, not first, kept, pulled, not first, 0.0, moved)


def _attention(shape: LayerShape, size: LayerSize, first: bool) -> LayerWork:
    back, passes = 1 if first else 2, _ATTENTION_PASSES[shape.kind]
    if shape.kind == "rgat":
        return _relation_attention(shape, size, first)
    products = [Product(size.sources - size.mirrors, shape.fan_in, shape.width, backward=back)]
    products += [Product(rows, shape.width, shape.heads) for rows in (size.sources, size.destinations)]  # halves of the scores
    if shape.kind == "gatv2":
        products.append(Product(size.destinations, shape.fan_in, shape.width, backward=back))
    if shape.edge_features:
        products.append(Product(size.edges, shape.edge_features, shape.heads, backward=1))
    scores = size.edges * shape.heads
    kept = size.sources * shape.width + 2 * scores + size.destinations * shape.width
    forward = 1 if shape.kind != "gatv2" else 2
    moved = _OWN_ROWS * size.sources * shape.width  # gradients of sums and of both halves of the scores
    return LayerWork(tuple(products), shape.width, forward, passes - forward, scores, True, kept, shape.width, True, 0.0, moved)


def _relation_attention(shape: LayerShape, size: LayerSize, first: bool) -> LayerWork:
    """A row for every (source, relation) pair; rows travel as they are, and a destination's half of a score reads its own."""
    back, moved = 1 if first else 2, 0.0 if first else _OWN_ROWS * size.sources * shape.fan_in
    pairs, targets = (min(size.edges, rows * shape.relations) for rows in (size.sources, size.destinations))
    products = (
        Product(pairs, shape.fan_in, shape.width, backward=back),
        Product(pairs, shape.width, shape.heads),
        Product(targets, shape.fan_in, shape.heads, backward=back),
        Product(size.destinations, shape.fan_in, shape.fan_out, backward=back),
    )
    scores = size.edges * shape.heads
    kept = pairs * (shape.fan_in + shape.width) + targets * shape.fan_in + 2 * scores + size.destinations * shape.width
    moved += 2 * pairs * shape.fan_in + _OWN_ROWS * pairs * shape.width
    return LayerWork(
        products, shape.width, 1, 2, scores, True, kept, shape.fan_in, not first, (pairs + targets) * shape.fan_in, moved
    )


def _summed_first(shape: LayerShape, size: LayerSize, first: bool, constant: bool) -> LayerWork:
    """Layers that sum their input as it is, and then do something with the sums."""
    fan_in, fan_out, back = shape.fan_in, shape.fan_out, 1 if first else 2
    rows, again = size.destinations, 0 if first else 1
    own = Product(rows, fan_in, fan_out, backward=back)
    if shape.kind == "mlp":
        return LayerWork((own,), fan_in, 0, 0, 0, False, 0, 0, False)
    forward = 0 if constant else 1
    products: tuple[Product, ...]
    if shape.kind == "gin":
        products = (own, Product(rows, fan_out, fan_out))
    elif shape.kind == "sage-max":
        products, forward = (own, own), _MAX_PASSES
    elif shape.kind == "sage-lstm":
        products = (own, own, Product(size.edges, 2 * fan_in, _LSTM_GATES * fan_in))
        return LayerWork(products, fan_in, 1, 1, 0, False, 6 * size.edges * fan_in, fan_in, not first)
    elif shape.kind == "rgcn":
        products = (own, Product(min(size.edges, rows * shape.relations), fan_in, fan_out, backward=back))
    else:
        products = ()  # sgc: the product is the head's
    kept = products[-1].rows * fan_in if products else 0
    pulled = 0 if first and shape.kind != "rgcn" else fan_in
    mixed = rows * fan_in + 2 * rows * fan_out if shape.kind == "gin" else 0.0
    apart = _OWN_ROWS * size.sources * fan_in if again and products else 0.0
    unmixed = mixed + rows * fan_out if shape.kind == "gin" else 0.0
    return LayerWork(products, fan_in, forward, again, 0, bool(again), kept, pulled, bool(again), mixed, apart + unmixed)


@dataclass(frozen=True)
class ModelShape:
    """A model's layers, the first one first; `head` is a last dense layer on the targets, where there is one."""

    layers: tuple[LayerShape, ...]
    head: LayerShape | None = None

    @property
    def parameters(self) -> int:
        """Trainable numbers of all layers."""
        return sum(layer.parameters for layer in self.layers) + (self.head.parameters if self.head else 0)


def model_shape(
    name: str,
    features: int,
    outputs: int,
    *,
    layers: int = 2,
    hidden: int = 128,
    aggregate: str = "mean",
    heads: int = 4,
    output_heads: int = 1,
    relations: int = 1,
    edge_features: int = 0,
) -> ModelShape:
    """The shape of a model of nn/registry.py, from its settings."""
    if min(features, outputs, layers, hidden) < 1:
        raise InputError(
            f"Expected at least 1 of features, outputs, layers and hidden, got {features, outputs, layers, hidden}."
        )
    kind = f"sage-{aggregate}" if name == "sage" and aggregate != "mean" else name
    if kind not in KINDS:
        raise InputError(f"There is no price for the model '{name}'. {nearest(name, KINDS)}")
    if kind == "sgc":
        return ModelShape((LayerShape("sgc", features, features),) * layers, LayerShape("mlp", features, outputs))
    widths = [features, *([hidden] * (layers - 1)), outputs]
    made = []
    for index in range(layers):
        last = index == layers - 1
        made.append(
            LayerShape(
                kind,  # type: ignore[arg-type]
                widths[index],
                widths[index + 1],
                heads=(output_heads if last else heads) if kind in _ATTENTION_PASSES else 1,
                average=last,
                relations=relations,
                edge_features=edge_features if kind == "gate" else 0,
            )
        )
    return ModelShape(tuple(made))
