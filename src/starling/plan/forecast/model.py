"""The model of a forecast: its shape (plan/model_work.py) with what else decides memory and traffic."""

from __future__ import annotations

from dataclasses import dataclass

from starling.core.errors import InputError, nearest
from starling.plan.forecast.facts import GraphFacts
from starling.plan.linear_work import LinearWork
from starling.plan.model_work import LayerShape, LayerSize, ModelShape, model_shape

TENSORS = {"gcn": 2, "sage": 3, "gat": 4, "gatv2": 6, "gate": 7, "rgat": 5, "rgcn": 3, "gin": 5, "sgc": 0, "mlp": 2}
"""Matrices and vectors that a layer learns, by model; the models that are forecast."""
ATTENTION = frozenset({"gat", "gatv2", "gate", "rgat"})
RELATIONAL = frozenset({"rgat", "rgcn"})
"""Those that read edge types; rows travel as they are."""
_SUMS_INPUT = frozenset({"gcn", "sage", "gin", "sgc"})
_HEADS = 4


@dataclass(frozen=True)
class ForecastModel:
    """A model on a graph, as it trains by default: constant sums are kept, dropout is between layers."""

    name: str
    shape: ModelShape
    features: int
    classes: int
    hidden: int
    dropout: float = 0.0

    @property
    def layers(self) -> tuple[LayerShape, ...]:
        """The graph layers, the first one first."""
        return self.shape.layers

    @property
    def weights(self) -> int:
        """Numbers that are learnt."""
        return self.shape.parameters

    @property
    def tensors(self) -> int:
        """Matrices and vectors they come in."""
        return TENSORS[self.name] * len(self.layers) + (2 if self.shape.head else 0)

    @property
    def sums_input(self) -> bool:
        """Whether the first layer sums features before any weight, so that it need be done once only."""
        return self.name in _SUMS_INPUT

    @property
    def turns_edges(self) -> bool:
        """Whether gradients go back along edges; those of one layer over constant features do not."""
        return self.name not in ("mlp", "sgc") and (len(self.layers) > 1 or not self.sums_input)

    @property
    def widest(self) -> int:
        """The widest rows or weights, as evaluation reckons with (infer/layerwise.py)."""
        return max(self.features, self.classes, *(max(layer.fan_in, layer.width) for layer in self.layers))

    @property
    def numbers_an_edge(self) -> int:
        """Numbers that a pass holds for every edge at once, likewise."""
        return 3 * _HEADS if self.name in ATTENTION else 0


def forecast_model(name: str, facts: GraphFacts, *, layers: int = 2, hidden: int = 128, dropout: float = 0.0) -> ForecastModel:
    """A model of the table (nn/registry.py) with its default settings, on a graph."""
    if name not in TENSORS:
        raise InputError(f"There is no forecast for the model '{name}'. {nearest(name, TENSORS)}")
    if name == "gate" and not facts.edge_features:
        raise InputError(
            "The model gate reads edge attributes, and the graph has none. Say --edge-features where it is given in numbers, or "
            "choose gat."
        )
    if name in RELATIONAL and not facts.relations:
        plain = {"rgat": "gat", "rgcn": "gcn"}[name]
        raise InputError(
            f"The model {name} reads edge types, and the graph has none. Say --relations where it is given in numbers, or choose "
            f"{plain}."
        )
    if name == "sgc" and dropout:
        raise InputError(f"The model sgc has no inner layers to drop values of, got --dropout {dropout:g}. Leave it out.")
    if name in ATTENTION and layers > 1 and hidden % _HEADS:
        raise InputError(f"Expected --hidden divisible by the {_HEADS} heads of {name}, got {hidden}.")
    shape = model_shape(
        name,
        facts.features,
        facts.classes,
        layers=layers,
        hidden=hidden,
        heads=_HEADS,
        relations=max(facts.relations, 1),
        edge_features=facts.edge_features,
    )
    return ForecastModel(name, shape, facts.features, facts.classes, hidden, dropout)


def product_first(layer: LayerShape, size: LayerSize, *, first: bool, kept_sums: bool, training: bool = True) -> bool:
    """Whether rows are multiplied before they are summed, as the layer itself decides (nn/layer.py)."""
    if layer.kind in ATTENTION - RELATIONAL:
        return True
    if layer.kind not in ("gcn", "sage"):
        return False
    work = LinearWork(
        round(size.edges),
        round(size.sources),
        round(size.destinations),
        layer.fan_in,
        layer.fan_out,
        layer.fan_in * layer.fan_out,
    )
    return work.product_first(backward=training, passes=0 if kept_sums else 1 if first or not training else 2)
