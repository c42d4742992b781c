"""From a config to the checked parts of a run. Whatever is wrong in the config or the data is found here, before any step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psutil
import torch
from numpy.typing import NDArray
from torch import nn

from starling.config.settings import Choice
from starling.core.errors import InputError
from starling.engine.source import EDGE_TABLES, GraphSource, SourceRequest, open_source
from starling.nn.graph import local_graph
from starling.nn.model import LayeredModel
from starling.nn.registry import ModelSpec, build_model, model_settings
from starling.nn.view import View
from starling.plan.cluster import Cluster
from starling.plan.find_clusters import find_clusters
from starling.plan.registry import make_strategy, read_settings
from starling.plan.source import NeighbourSource
from starling.plan.strategy import Strategy
from starling.train.config import RunConfig
from starling.train.tasks import Task, make_task

_CLUSTER_MEMORY = 1 << 30
_FEATURE_SHARE = 2
"""One part in so many of the budget may hold features."""


@dataclass(frozen=True)
class Setup:
    """A run that may begin; `config` has every default filled in."""

    config: RunConfig
    source: GraphSource
    task: Task
    model: nn.Module
    strategy: Strategy
    memory: int


def set_up(config: RunConfig) -> Setup:
    """Open the data, make the model and the strategy, check that they fit together."""
    check_device(config.run.device)
    settings = resolved_model(config.model)
    how = read_settings(config.strategy.name, config.strategy.settings)
    memory = budget(config)
    source = read_source(config, memory)
    task = make_task(config.task, source)
    _check_validation(config, source)
    _check_shapes(config, source.features.width, task.outputs)
    if config.strategy.name == "global" and config.run.memory and 4 * source.nodes * source.features.width > memory:
        raise InputError(
            f"The strategy global holds all features, {4 * source.nodes * source.features.width:,} bytes, more than --memory. "
            "Pass --strategy mini, or more memory."
        )
    model = make_model(config, settings, source, task.outputs)
    if ":" in config.model.name:
        check_outputs(config.model.name, model, source, task.outputs)
    layers, seed = _layers(config, model), config.run.seed
    clusters = _clusters(config, how, source) if isinstance(how, Cluster.Settings) else None
    strategy = make_strategy(
        config.strategy.name, how, _neighbours(source), source.splits["train"], layers, seed, clusters=clusters
    )
    data = config.data.model_copy(
        update={"path": config.data.path.resolve(), "features": source.features.width, "outputs": task.outputs}
    )
    final = config.model_copy(
        update={
            "data": data,
            "model": Choice(name=config.model.name, settings=dict(settings)),
            "strategy": Choice(name=config.strategy.name, settings=strategy.settings.model_dump()),
            "task": config.task.model_copy(update={"name": task.kind, "metric": task.score.name}),
        }
    )
    return Setup(final, source, task, model, strategy, memory)


def budget(config: RunConfig) -> int:
    """Bytes for features and evaluation: what was asked for, or half of what is free."""
    return config.run.memory or int(psutil.virtual_memory().available) // 2


def check_device(name: str) -> None:
    """Refuse a device that is not there."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"Expected a device such as cpu or cuda, got '{name}'.") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"The device '{name}' is not there: torch sees {torch.cuda.device_count()} GPUs. Pass --device cpu.")
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"Expected the device cpu or cuda, got '{name}'.")


def resolved_model(choice: Choice) -> Mapping[str, Any]:
    """A model's settings, defaults filled in; a user's class checks its own."""
    if ":" in choice.name and not choice.name.startswith("pyg:"):
        return choice.settings
    return model_settings(ModelSpec(choice.name, 1, 1, settings=choice.settings)).model_dump()


def read_source(config: RunConfig, memory: int) -> GraphSource:
    """Open the data with the edge tables this run reads."""
    name, settings = config.model.name, config.model.settings
    wanted = {"gate": {"attr"}, "rgcn": {"type"}}.get(name, set())
    if settings.get("edge_weights") or config.strategy.settings.get("sampling") == "weighted":
        wanted = wanted | {"weight"}
    optional = set(EDGE_TABLES) if ":" in name else set()  # a model we do not know may read any
    return open_source(
        config.data.path,
        SourceRequest(config.data.normalize, tuple(sorted(wanted)), tuple(sorted(optional - wanted)), memory // _FEATURE_SHARE),
    )


def make_model(config: RunConfig, settings: Mapping[str, Any], source: GraphSource, outputs: int) -> nn.Module:
    """The model with its initial weights, on its device."""
    attr = source.edge_tables.get("attr")
    torch.manual_seed(config.run.seed)  # for what a user's model draws itself
    spec = ModelSpec(
        config.model.name,
        source.features.width,
        outputs,
        edge_features=0 if attr is None else attr.shape[1],
        relations=source.relations,
        settings=settings,
    )
    return build_model(spec, config.run.seed).to(config.run.device)


def check_outputs(name: str, model: nn.Module, source: GraphSource, outputs: int) -> None:
    """Refuse a model made elsewhere that cannot compute two nodes joined by two edges, or gives outputs of another shape."""
    tables: dict[str, Any] = {f"edge_{table}": rows.new_zeros(2, *rows.shape[1:]) for table, rows in source.edge_tables.items()}
    graph = local_graph(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), weighted_degree=torch.ones(2), **tables)
    device, was_training = next((weight.device for weight in model.parameters()), torch.device("cpu")), model.training
    try:
        with torch.no_grad():
            given = model.eval()(View(graph.to(device)), torch.zeros(2, source.features.width, device=device))
    except Exception as error:
        raise InputError(f"The model {name} cannot compute a tiny graph: {type(error).__name__}: {error}") from error
    model.train(was_training)
    if not isinstance(given, torch.Tensor) or given.shape != (2, outputs):
        shape = tuple(given.shape) if isinstance(given, torch.Tensor) else type(given).__name__
        raise InputError(f"Expected outputs of shape (2, {outputs}) from the model {name} for two nodes, got {shape}.")


def _layers(config: RunConfig, model: nn.Module) -> int:
    layers = model.layer_count if isinstance(model, LayeredModel) else getattr(model, "layer_count", None)
    if isinstance(layers, int):
        return layers
    if config.strategy.name != "global":
        raise InputError(
            f"The model {config.model.name} does not say how many layers it has, so {config.strategy.name} cannot plan for it. "
            "Give the class an attribute 'layer_count', or use --strategy global."
        )
    return 1  # it is given the whole graph's one view


def _neighbours(source: GraphSource) -> NeighbourSource:
    weight = source.edge_tables.get("weight")
    return NeighbourSource(source.incoming, source.nodes, edge_weight=None if weight is None else weight.numpy())


def _clusters(config: RunConfig, how: Cluster.Settings, source: GraphSource) -> NDArray[Any]:
    """Clusters within the budget asked for, never one that depends on what is free: they must come out the same again."""
    return find_clusters(source.edge_stream(), how, seed=config.run.seed, memory=config.run.memory or _CLUSTER_MEMORY)


def _check_validation(config: RunConfig, source: GraphSource) -> None:
    if len(source.splits.get("val", ())):
        return
    wanted = "--patience" if config.run.patience else "--schedule plateau" if config.schedule.name == "plateau" else None
    if wanted:
        raise InputError(f"{wanted} needs validation nodes, and {source.path} has none. Leave it out, or give a 'val' mask.")


def _check_shapes(config: RunConfig, features: int, outputs: int) -> None:
    for name, given, found in (("features", config.data.features, features), ("outputs", config.data.outputs, outputs)):
        if given is not None and given != found:
            raise InputError(f"Expected {given} {name} as the config says, got {found} in {config.data.path}.")
