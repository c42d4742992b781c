"""From a config to the checked parts of a run. Whatever is wrong in the config or the data is found here, before any step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from starling.comm.team import Team
from starling.config.settings import Choice
from starling.core.errors import InputError
from starling.engine.embeddings.table import EmbeddingTable
from starling.engine.fill import Filler
from starling.engine.hybrid.fill import Sending, TeamFiller
from starling.engine.hybrid.planning.boundary import Boundary
from starling.engine.hybrid.planning.chances import chances_by_choice
from starling.engine.hybrid.planning.registry import check_team_strategy, make_team_strategy
from starling.engine.hybrid.planning.steps import TeamTask
from starling.engine.hybrid.share.source import WorkerSource
from starling.engine.source import GraphSource
from starling.infer.layerwise import Inference
from starling.infer.timed import PastInference
from starling.plan.mini import Mini
from starling.plan.registry import make_strategy, read_settings
from starling.plan.source import NeighbourSource
from starling.plan.strategy import Strategy
from starling.train.averaging.parts_work import PartsWork
from starling.train.balance import BalanceRequest, balanced_work, check_balance
from starling.train.budget import data_memory, team_budget
from starling.train.config import RunConfig
from starling.train.data_setup import data_work
from starling.train.devices import check_run_device
from starling.train.embeddings import check_embeddings, table_of
from starling.train.gathering_lists import with_lists_it_needs
from starling.train.graph_checks import check_edges, check_features_fit, type_names
from starling.train.grouping import Grouping, make_grouping
from starling.train.habits import check_boundary_mean, habits_of
from starling.train.model import Shapes, check_outputs, layers_of, make_model, resolved_model, shapes_of
from starling.train.reading import read_share, read_source
from starling.train.tasks import Source, Task, class_names, make_task
from starling.train.team_evaluation import TeamEvaluation
from starling.train.work import OwnWork, TeamWork, Work


@dataclass(frozen=True)
class Setup:
    """A run that may begin; `config` has every default filled in."""

    config: RunConfig
    task: Task
    shapes: Shapes
    model: nn.Module
    work: Work | PartsWork
    embeddings: EmbeddingTable | None = None
    """Rows that are learnt beside the model's weights."""


def set_up(config: RunConfig, team: Team) -> Setup:
    """Open the data, make the model and the strategy, check that they fit together."""
    settings, how = check_choices(config)
    if team.size == 1:  # workers of a larger one were given theirs when they met
        team = replace(team, device=torch.device(config.run.device))
    memory = team_budget(config, team.size)
    source = read_share(config, memory, team) if is_shared(config) else read_source(config, memory)
    embeddings = table_of(source.features)
    check_embeddings(embeddings is not None, config.sync.name)
    task = make_task(config.task, source)
    check_validation(config, source)
    check_shapes(config, source.features.width, task.outputs)
    check_edges(config, how, source)
    shapes = shapes_of(source, task.outputs)
    model = make_model(config, shapes, team.device)
    if ":" in config.model.name:
        check_outputs(config.model.name, model, source, task.outputs)
    layers = layers_of(config, model)
    groups = make_grouping(config, how, source.features.width, task.outputs, layers)
    if isinstance(source, WorkerSource) and config.team.parallel == "data":
        work: Work = data_work(config, how, source, layers)
    elif isinstance(source, WorkerSource):
        check_features_fit(config, source)
        work = _team_work(config, how, groups, source, model, layers)
    else:
        work = _own_work(config, how, groups, source, layers, memory)
    final = decided(config, settings, how, shapes, task, embeddings, team=config.team.resolved)
    return Setup(final, task, shapes, model, work, embeddings)


def check_choices(config: RunConfig) -> tuple[Mapping[str, Any], Strategy.Settings]:
    """Refuse a device, model or strategy that cannot be, before anything is read; the settings of the last two."""
    check_run_device(config, shared=is_shared(config))
    settings = resolved_model(config.model)
    how = read_settings(config.strategy.name, config.strategy.settings)
    check_balance(config, how)
    if config.team.parallel == "data":
        data_memory(config, config.team.workers)
    return settings, how


def decided(
    config: RunConfig,
    settings: Mapping[str, Any],
    how: Strategy.Settings,
    shapes: Shapes,
    task: Task,
    embeddings: EmbeddingTable | None = None,
    **more: object,
) -> RunConfig:
    """The config with everything filled in that was left to Starling: what the run directory keeps, to repeat the run by.

    `more` are tables of which a kind of run decides something too.
    """
    names = {"classes": class_names(config.data.path, task.kind), **type_names(config, shapes.type_widths)}
    data = {"path": config.data.path.resolve(), **asdict(shapes), **names}
    return config.model_copy(
        update={
            "data": config.data.model_copy(update=data),
            "model": Choice(name=config.model.name, settings=dict(settings)),
            "strategy": Choice(name=config.strategy.name, settings=how.model_dump()),
            "embedding": config.embedding.model_copy(update={"dim": 0 if embeddings is None else embeddings.width}),
            "task": config.task.model_copy(update={"name": task.kind, "metric": task.score.name}),
            **more,
        }
    )


def is_shared(config: RunConfig) -> bool:
    """Whether the run computes part by part: with several workers, by parts of its own, or where parts hear of others by chance."""
    return config.team.workers > 1 or config.team.boundary < 1 or config.team.parallel == "data"


def _own_work(
    config: RunConfig, how: Strategy.Settings, groups: Grouping, source: GraphSource, layers: int, memory: int
) -> OwnWork:
    if config.strategy.name == "global" and config.run.memory and 4 * source.nodes * source.features.width > memory:
        raise InputError(
            f"The strategy global holds all features, {4 * source.nodes * source.features.width:,} bytes, more than --memory. "
            "Pass --strategy mini, or more memory."
        )
    run = config.run
    clusters = groups.of_graph(source)
    strategy = make_strategy(
        config.strategy.name, how, _neighbours(source), source.splits["train"], layers, run.seed, clusters=clusters
    )
    filler = Filler(source, seed=run.seed, device=run.device, reuse=run.reuse)
    return OwnWork(source, strategy, filler, make_inference(config, how, source, layers, memory, only_splits=True))


def make_inference(
    config: RunConfig, how: Strategy.Settings, source: GraphSource, layers: int, memory: int, *, only_splits: bool = False
) -> Inference | PastInference:
    """How exact outputs are computed: layer by layer, or where targets look into the past, each with its own."""
    if not (isinstance(how, Mini.Settings) and how.past):
        return Inference(source, memory, config.run.device, config.run.reuse)
    rows = np.unique(np.concatenate(list(source.splits.values()))) if only_splits else np.arange(source.nodes)
    return PastInference(source, _neighbours(source), rows, layers, memory, config.run.device)


def _team_work(
    config: RunConfig, how: Strategy.Settings, groups: Grouping, source: WorkerSource, model: nn.Module, layers: int
) -> TeamWork:
    check_team_strategy(config.strategy.name, how)
    run, team, habits = config.run, config.team, habits_of(model, source)
    raw, whole_steps = not source.features.learnt and habits.sums_raw_input, config.strategy.name == "global"
    first_whole = raw and run.reuse and whole_steps and 0 < team.boundary < 1  # with 0 parts hear nothing of one another
    check_boundary_mean(team, habits.means, first_kept=first_whole)
    source = with_lists_it_needs(source, config, how, model)
    graph, labels = source.graph, groups.of_team(source)
    chances = chances_by_choice(team.boundary_choice, graph, source.team, team.boundary, source.calls.next_tag())
    boundary = Boundary(graph, team.boundary, run.seed, chances)
    task = TeamTask(graph, source.team, source.splits["train"], layers, run.seed, boundary, source.calls)
    strategy = make_team_strategy(config.strategy.name, how, task, source, labels, in_place=not habits.lists_edges)
    # Sums of input features that are kept need mirrors' features once; other steps read them each time, so they are fetched.
    fetched = raw and team.boundary > 0 and not (run.reuse and whole_steps) and not team.balance_workers
    mirrors = source.mirrors_of(source.x) if fetched else None
    whole = source.local_graph(source.graph.whole_layer, source.calls)
    sending, ratio = Sending(team.overlap, team.wire), team.boundary_mean == "ratio"
    filler = TeamFiller(source, whole, run.seed, run.reuse, first_whole, mirrors, sending, ratio)
    if team.balance_workers:
        return balanced_work(task, source, BalanceRequest(how, labels, groups.widths, raw), filler)
    return TeamWork(TeamEvaluation(source, filler, layers), strategy)


def _neighbours(source: GraphSource) -> NeighbourSource:
    weight, kinds = source.edge_tables.get("weight"), source.edge_tables.get("type")
    return NeighbourSource(
        source.incoming,
        source.nodes,
        edge_weight=None if weight is None else weight.numpy(),
        edge_type=None if kinds is None else kinds.numpy(),
        relations=source.relation_names,
        types=source.relations,
        edge_time=source.edge_time,
        node_time=source.node_time,
    )


def check_validation(config: RunConfig, source: Source) -> None:
    """Refuse settings that go by validation where there is none."""
    if source.split_sizes["val"]:
        return
    wanted = "--patience" if config.run.patience else "--schedule plateau" if config.schedule.name == "plateau" else None
    if wanted:
        raise InputError(f"{wanted} needs validation nodes, and {source.path} has none. Leave it out, or give a 'val' mask.")


def check_shapes(config: RunConfig, features: int | None, outputs: int | None) -> None:
    """Refuse data of other shapes than a config says; None where a shape is a choice, not a fact of the data."""
    for name, given, found in (("features", config.data.features, features), ("outputs", config.data.outputs, outputs)):
        if given is not None and found is not None and given != found:
            raise InputError(f"Expected {given} {name} as the config says, got {found} in {config.data.path}.")
