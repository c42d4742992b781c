"""Models by name: what can be asked for, with which settings, and how it is made; one table for parsing, help and tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from torch import nn

from starling.core.errors import InputError, nearest
from starling.core.manifest import Record
from starling.core.user_class import ClassPlace
from starling.nn.initial import initialise
from starling.nn.layers.dense import Dense
from starling.nn.layers.gat import GAT, GATE, GATv2
from starling.nn.layers.gcn import GCN
from starling.nn.layers.gin import GIN
from starling.nn.layers.relational import Relational
from starling.nn.layers.relational_gcn import RelationalGCN
from starling.nn.layers.rgat import RGAT
from starling.nn.layers.rgcn import RGCN
from starling.nn.layers.sage import SAGE, LstmSAGE
from starling.nn.layers.sgc import SGC
from starling.nn.pyg import pyg_layer
from starling.nn.stack import Activation, LayerBuilder, Probability, Stack, StackSettings
from starling.nn.typed_input import TypedInput

Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]


class GcnSettings(StackSettings):
    """GCN's own settings."""

    edge_weights: bool = False
    relational: bool = False
    """A matrix for each edge type, and one for the row itself; degrees stay those of the whole graph."""


class AnyRelationSettings(StackSettings):
    """Of layers that can be had once for each relation."""

    relational: bool = False
    """A layer with weights of its own for each edge type."""


class SageSettings(AnyRelationSettings):
    """GraphSAGE's own settings."""

    aggregate: Literal["mean", "max", "lstm"] = "mean"
    edge_weights: bool = False


class GatSettings(AnyRelationSettings):
    """GAT's and GATv2's own settings."""

    activation: Activation = "elu"
    heads: Positive = 4
    output_heads: Positive = 1
    """Heads of the last layer, averaged."""
    attention_dropout: Probability = 0.0


class GateSettings(GatSettings):
    """GAT-E's own settings."""

    edge_message: bool = True


class RgcnSettings(StackSettings):
    """RGCN's own settings."""

    bases: Count = 0
    blocks: Count = 0


class RgatSettings(StackSettings):
    """RGAT's own settings."""

    activation: Activation = "elu"
    heads: Positive = 4
    output_heads: Positive = 1
    attention_dropout: Probability = 0.0
    softmax: Literal["across", "within"] = "across"
    """Over all in-edges of a node, or over those of each relation."""
    bases: Count = 0


class SgcSettings(Record):
    """All there is to say about SGC, which has no inner layers."""

    layers: Positive = 2
    """Hops."""
    edge_weights: bool = False


class PygSettings(AnyRelationSettings):
    """What a PyG convolution is made with."""

    options: dict[str, Any] = {}


@dataclass(frozen=True)
class ModelSpec:
    """A model to be made: its name, the shapes the data gives, and settings as they stand in a file or on the command line."""

    name: str
    features: int
    classes: int
    edge_features: int = 0
    relations: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    type_widths: tuple[int, ...] = ()
    """Columns of features of each node type, where they are read by type."""


@dataclass(frozen=True)
class Entry:
    """A line of the table."""

    summary: str
    settings: type[Record]
    make: Callable[[ModelSpec, Any], nn.Module]


def _stack(builder: Callable[[ModelSpec, Any], LayerBuilder]) -> Callable[[ModelSpec, Any], nn.Module]:
    def make(spec: ModelSpec, settings: Any) -> nn.Module:
        given = TypedInput(spec.type_widths, settings.hidden, settings.input_dropout) if spec.type_widths else None
        return Stack(spec.features, spec.classes, settings, _by_relation(spec, settings, builder(spec, settings)), given)

    return make


def _by_relation(spec: ModelSpec, settings: Any, build: LayerBuilder) -> LayerBuilder:
    """The same layers, one for each relation where that is asked for."""
    if not isinstance(settings, AnyRelationSettings) or not settings.relational:
        return build
    return lambda fan_in, fan_out, last: Relational(fan_in, fan_out, spec.relations, lambda: build(fan_in, fan_out, last))


def _gcn(spec: ModelSpec, s: GcnSettings) -> LayerBuilder:
    if s.relational:
        return lambda fan_in, fan_out, last: RelationalGCN(fan_in, fan_out, spec.relations, edge_weights=s.edge_weights)
    return lambda fan_in, fan_out, last: GCN(fan_in, fan_out, edge_weights=s.edge_weights)


def _sage(spec: ModelSpec, s: SageSettings) -> LayerBuilder:
    if s.aggregate == "lstm":
        if s.edge_weights:
            raise InputError("Edge weights are for a mean over neighbours, got lstm. Set aggregate=mean.")
        return lambda fan_in, fan_out, last: LstmSAGE(fan_in, fan_out)
    kind = s.aggregate
    return lambda fan_in, fan_out, last: SAGE(fan_in, fan_out, aggregate=kind, edge_weights=s.edge_weights)


def _heads(s: GatSettings | RgatSettings, last: bool) -> dict[str, Any]:
    return {
        "heads": s.output_heads if last else s.heads,
        "average": last,
        "attention_dropout": s.attention_dropout,
    }


def _loops(s: GatSettings) -> dict[str, bool]:
    """By relation the row itself has a matrix of its own, and no attention to itself in each."""
    return {"self_loop": not s.relational}


def _gate(spec: ModelSpec, s: GateSettings) -> LayerBuilder:
    return lambda fan_in, fan_out, last: GATE(
        fan_in, fan_out, spec.edge_features, edge_message=s.edge_message, **_heads(s, last), **_loops(s)
    )


MODELS: dict[str, Entry] = {
    "gcn": Entry("graph convolution (Kipf, Welling 2017)", GcnSettings, _stack(_gcn)),
    "sage": Entry("GraphSAGE, mean, max or LSTM (Hamilton et al. 2017)", SageSettings, _stack(_sage)),
    "gat": Entry(
        "graph attention (Veličković et al. 2018)",
        GatSettings,
        _stack(lambda spec, s: lambda fan_in, fan_out, last: GAT(fan_in, fan_out, **_heads(s, last), **_loops(s))),
    ),
    "gatv2": Entry(
        "dynamic attention (Brody et al. 2022)",
        GatSettings,
        _stack(lambda spec, s: lambda fan_in, fan_out, last: GATv2(fan_in, fan_out, **_heads(s, last), **_loops(s))),
    ),
    "gate": Entry("GAT with edge attributes in attention and message", GateSettings, _stack(_gate)),
    "rgcn": Entry(
        "relational convolution (Schlichtkrull et al. 2018)",
        RgcnSettings,
        _stack(
            lambda spec, s: (
                lambda fan_in, fan_out, last: RGCN(
                    fan_in, fan_out, spec.relations, bases=s.bases, blocks=0 if last else s.blocks
                )
            )
        ),
    ),
    "rgat": Entry(
        "attention over many relations (Busbridge et al. 2019)",
        RgatSettings,
        _stack(
            lambda spec, s: (
                lambda fan_in, fan_out, last: RGAT(
                    fan_in, fan_out, spec.relations, softmax=s.softmax, bases=s.bases, **_heads(s, last)
                )
            )
        ),
    ),
    "gin": Entry(
        "graph isomorphism network (Xu et al. 2019)",
        AnyRelationSettings,
        _stack(lambda spec, s: lambda fan_in, fan_out, last: GIN(fan_in, fan_out)),
    ),
    "sgc": Entry(
        "simplified convolution: hops, then one linear layer (Wu et al. 2019)",
        SgcSettings,
        lambda spec, s: SGC(spec.features, spec.classes, s.layers, edge_weights=s.edge_weights),
    ),
    "mlp": Entry(
        "a network that does not look at the graph: the baseline",
        StackSettings,
        _stack(lambda spec, s: lambda fan_in, fan_out, last: Dense(fan_in, fan_out)),
    ),
}


_NOT_BY_RELATION = {
    "rgcn": "it has a matrix for each relation as it is. Leave relational out.",
    "rgat": "it has weights for each relation as it is. Leave relational out.",
    "sgc": "it has one matrix after all its hops, and no layers that could have one for each. Pass --model gcn, or rgcn.",
    "mlp": "it does not look at edges. Leave relational out, or pass another --model.",
}
"""Why a model of the table cannot be `relational`."""

_ONE_AT_A_TIME = threading.Lock()
"""Modules that are not ours draw their first weights from torch's one generator, which all threads share."""


def build_model(spec: ModelSpec, seed: int = 0) -> nn.Module:
    """Make a model: a name of the table, ``pyg:ConvName``, or ``file.py:Class``; its weights depend on the seed alone."""
    with _ONE_AT_A_TIME:
        model = _made(spec)
        initialise(model, seed)
    return model


def _made(spec: ModelSpec) -> nn.Module:
    if spec.name.startswith("pyg:"):
        made: nn.Module = _stack(
            lambda spec, s: lambda fan_in, fan_out, last: pyg_layer(spec.name[4:], fan_in, fan_out, s.options)
        )(spec, model_settings(spec))
        return made
    if place := ClassPlace.parse(spec.name):
        return _users_model(spec, place)
    return _entry(spec.name).make(spec, model_settings(spec))


def model_settings(spec: ModelSpec) -> Record:
    """The checked settings of a model, defaults filled in; an unknown key is an error that suggests the right one."""
    kind: type[Record] = PygSettings if spec.name.startswith("pyg:") else _entry(spec.name).settings
    unknown = [key for key in spec.settings if key not in kind.model_fields]
    if "relational" in unknown:
        raise InputError(f"The model '{spec.name}' has no form by relation: {_NOT_BY_RELATION[spec.name]}")
    if unknown:
        hint = nearest(unknown[0], ["name", *kind.model_fields])
        raise InputError(f"The model '{spec.name}' has no setting '{unknown[0]}'. {hint}")
    try:
        return kind.model_validate(dict(spec.settings))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        raise InputError(
            f"Wrong setting '{place}' of the model '{spec.name}': {first['msg']}, got {first['input']!r}."
        ) from error


def _entry(name: str) -> Entry:
    if name not in MODELS:
        raise InputError(f"There is no model '{name}'. {nearest(name, MODELS)}")
    return MODELS[name]


def _users_model(spec: ModelSpec, place: ClassPlace) -> nn.Module:
    """Make ``Class(features, classes, **settings)`` of a user's file."""
    made = place.load(nn.Module, "model")
    try:
        return made(spec.features, spec.classes, **spec.settings)
    except Exception as error:  # whatever the user's code raises
        call = f"{place.name}({', '.join(['features', 'classes', *spec.settings])})"
        raise InputError(f"{place.file} cannot make {call}: {type(error).__name__}: {error}.") from error
