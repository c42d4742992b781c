"""The model of a run: made for the shapes of its data, with as many layers as a plan must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from starling.config.settings import Choice
from starling.core.errors import InputError
from starling.nn.decoders import LinkModel, make_decoder
from starling.nn.initial import torch_seeded
from starling.nn.model import LayeredModel
from starling.nn.registry import ModelSpec, build_model, model_settings
from starling.nn.view import View
from starling.train.config import RunConfig
from starling.train.habits import two_nodes
from starling.train.tasks import Source


@dataclass(frozen=True)
class Shapes:
    """What a model must know of the data."""

    features: int
    outputs: int
    edge_features: int = 0
    relations: int = 0
    type_widths: tuple[int, ...] = ()


def shapes_of(source: Source, outputs: int) -> Shapes:
    """The shapes of a graph's tables."""
    attr = source.edge_tables.get("attr")
    edge_features = 0 if attr is None else attr.shape[1]
    return Shapes(source.features.width, outputs, edge_features, source.relations, source.features.type_widths)


def make_model(config: RunConfig, shapes: Shapes, device: torch.device | None = None) -> nn.Module:
    """The model with its initial weights, on its device: the run's, or this worker's."""
    spec = ModelSpec(
        config.model.name,
        shapes.features,
        shapes.outputs,
        edge_features=shapes.edge_features,
        relations=shapes.relations,
        type_widths=shapes.type_widths,
        settings=resolved_model(config.model),
    )
    with torch_seeded(config.run.seed):  # for what a user's model draws itself
        model = build_model(spec, config.run.seed)
    if config.task.name == "link":
        model = LinkModel(model, make_decoder(config.link.decoder, shapes.outputs, shapes.relations, config.run.seed))
    return model.to(config.run.device if device is None else device)


def check_outputs(name: str, model: nn.Module, source: Source, outputs: int) -> None:
    """Refuse a model made elsewhere that cannot compute two nodes joined by two edges, or gives outputs of another shape."""
    graph = two_nodes(source)
    device, was_training = next((weight.device for weight in model.parameters()), torch.device("cpu")), model.training
    try:
        with torch.no_grad():
            given = model.eval()(View(graph.to(device)), torch.zeros(2, source.features.width, device=device))
    except Exception as error:
        said = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"The model {name} cannot compute a tiny graph: {type(error).__name__}: {said}.") from error
    model.train(was_training)
    if not isinstance(given, torch.Tensor) or given.shape != (2, outputs):
        shape = tuple(given.shape) if isinstance(given, torch.Tensor) else type(given).__name__
        raise InputError(f"Expected outputs of shape (2, {outputs}) from the model {name} for two nodes, got {shape}.")


def layers_of(config: RunConfig, model: nn.Module) -> int:
    """How many layers a plan must have."""
    layers = model.layer_count if isinstance(model, LayeredModel) else getattr(model, "layer_count", None)
    if isinstance(layers, int):
        return layers
    if config.strategy.name != "global":
        raise InputError(
            f"The model {config.model.name} does not say how many layers it has, so {config.strategy.name} cannot plan for it. "
            "Give the class an attribute 'layer_count', or use --strategy global."
        )
    return 1  # it is given the whole graph's one view


def resolved_model(choice: Choice) -> Mapping[str, Any]:
    """A model's settings, defaults filled in; a user's class checks its own."""
    if ":" in choice.name and not choice.name.startswith("pyg:"):
        return choice.settings
    return model_settings(ModelSpec(choice.name, 1, 1, settings=choice.settings)).model_dump()
