"""From a config to a run that averages models: parts that are only looked at, so that a graph larger than memory can be trained."""

from __future__ import annotations

from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.data.parts_source import open_parts_source
from starling.engine.data.shelf import Shelf
from starling.nn.model import LayeredModel
from starling.train.averaging.parts_work import PartsPlan, PartsWork
from starling.train.budget import data_memory
from starling.train.config import RunConfig
from starling.train.graph_checks import check_averaged_features, check_data_parallel, check_relation_counts, learns_by_relation
from starling.train.setup import (
    Setup,
    check_choices,
    check_outputs,
    check_shapes,
    check_validation,
    decided,
    layers_of,
    make_model,
    request_of,
    shapes_of,
)
from starling.train.tasks import make_task

_PART_SHARE = 2
"""One part in so many of the budget may hold graph parts; the rest is for batches, layers and evaluation."""
_CLUSTER_MEMORY = 1 << 30


def set_up_averaging(config: RunConfig, team: Team) -> Setup:
    """Look at all parts, make the model, check that everything fits together."""
    settings, how = check_choices(config)
    if config.strategy.name == "cohesive":
        raise InputError(
            "With --sync average parts train alone, and cohesive batches are found on the whole graph. Pass --strategy mini or "
            "cluster, or --sync gradient."
        )
    memory = data_memory(config, team.size)
    source = open_parts_source(config.data.path, team, request_of(config, memory))
    memory = max(0, memory - source.node_bytes)
    check_averaged_features(config, source.parts.manifest)
    check_data_parallel(config, how)
    if learns_by_relation(config) and source.relations and source.then is None:  # before a time one may not be there yet
        check_relation_counts(source.total(source.relation_counts()), source.relation_names, source.path)
    task = make_task(config.task, source)
    check_validation(config, source)
    check_shapes(config, source.features.width, task.outputs)
    shapes = shapes_of(source, task.outputs)
    model = make_model(config, shapes)
    if ":" in config.model.name:
        check_outputs(config.model.name, model, source, task.outputs)
    if not isinstance(model, LayeredModel):
        raise InputError(
            f"The model {config.model.name} cannot run one layer at a time, as evaluation part by part needs. Make it a "
            "LayeredModel, or pass --parallel hybrid."
        )
    run = config.run
    plan = PartsPlan(
        config.strategy.name,
        how,
        layers_of(config, model),
        run.seed,
        run.device,
        run.reuse,
        run.memory or _CLUSTER_MEMORY,
    )
    work = PartsWork(source, Shelf(source, memory // _PART_SHARE), plan, memory - memory // _PART_SHARE)
    sync = config.sync.model_copy(update={"every": config.sync.every or 1})
    return Setup(decided(config, settings, how, shapes, task, sync=sync), task, shapes, model, work)
