"""From a config to a run that averages models: parts that are only looked at, so that a graph larger than memory can be trained."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.data.parts_source import PartsSource, open_parts_source
from starling.engine.data.shelf import Shelf
from starling.nn.decoders import LinkModel
from starling.nn.model import LayeredModel
from starling.plan.strategy import Strategy
from starling.train.averaging.embeddings import table_of_parts, with_part_embeddings
from starling.train.averaging.node_work import NodePartsWork
from starling.train.averaging.parts_work import PartsPlan
from starling.train.budget import data_memory
from starling.train.config import RunConfig
from starling.train.graph_checks import check_averaged_rows, check_data_parallel, check_relation_counts, learns_by_relation
from starling.train.model import Shapes, check_outputs, layers_of, make_model, shapes_of
from starling.train.reading import request_of
from starling.train.setup import Setup, check_choices, check_shapes, check_validation, decided
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
    source = open_averaged(config, team, how)
    task = make_task(config.task, source)
    check_validation(config, source)
    check_shapes(config, source.features.width, task.outputs)
    shapes = shapes_of(source, task.outputs)
    model = averaged_model(config, source, shapes)
    room = Room.of(config, source)
    work = NodePartsWork(
        source, room.shelf, parts_plan(config, how, model), room.evaluation, config.run.memory or _CLUSTER_MEMORY
    )
    table = table_of_parts(source)
    final = decided(config, settings, how, shapes, task, table, sync=config.sync.resolved)
    return Setup(final, task, shapes, model, work, table)


def open_averaged(config: RunConfig, team: Team, how: Strategy.Settings) -> PartsSource:
    """Look at all parts; refuses what cannot be averaged over them."""
    source = open_parts_source(config.data.path, team, request_of(config, data_memory(config, team.size)))
    check_averaged_rows(config, source.parts.manifest)
    check_data_parallel(config, how)
    if learns_by_relation(config) and source.relations and source.kept is None:  # before a time one may not be there yet
        check_relation_counts(source.total(source.relation_counts()), source.relation_names, source.path)
    return with_part_embeddings(source, config)


def averaged_model(config: RunConfig, source: PartsSource, shapes: Shapes) -> nn.Module:
    """The model with its initial weights; refuses one that cannot be evaluated part by part."""
    model = make_model(config, shapes)
    if ":" in config.model.name:
        check_outputs(config.model.name, model, source, shapes.outputs)
    if not isinstance(model.encoder if isinstance(model, LinkModel) else model, LayeredModel):
        raise InputError(
            f"The model {config.model.name} cannot run one layer at a time, as evaluation part by part needs. Make it a "
            "LayeredModel, or pass --parallel hybrid."
        )
    return model


def parts_plan(config: RunConfig, how: Strategy.Settings, model: nn.Module) -> PartsPlan:
    """How each part is trained on."""
    run = config.run
    return PartsPlan(config.strategy.name, how, layers_of(config, model), run.seed, run.device, run.reuse)


@dataclass(frozen=True)
class Room:
    """How a worker's memory is shared out between its parts and evaluation, what is always held taken off first."""

    shelf: Shelf
    evaluation: int

    @classmethod
    def of(cls, config: RunConfig, source: PartsSource, held: int = 0) -> Room:
        """The room that a run has beside what it holds all the time, `held` bytes more than for every node."""
        memory = max(0, data_memory(config, source.team.size) - source.node_bytes - held)
        return cls(Shelf(source, memory // _PART_SHARE), memory - memory // _PART_SHARE)
