"""From a config to the checked parts of a run of link prediction, before any step."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from starling.comm.team import Team
from starling.config.settings import Choice
from starling.core.errors import InputError
from starling.core.manifest import read_json
from starling.engine.fill import Filler
from starling.engine.source import GraphSource, read_edge_table
from starling.infer.layerwise import Inference
from starling.plan.links.negatives import (
    KnownPairs,
    NegativeSampler,
    PartRanges,
    check_possible,
    degree_weights,
    known_pairs,
)
from starling.plan.links.strategy import DealTask, LinkStrategy
from starling.plan.registry import read_settings
from starling.plan.source import NeighbourSource
from starling.plan.strategy import Strategy
from starling.store.parts import open_parts
from starling.train.config import RunConfig
from starling.train.embeddings import check_embeddings, table_of
from starling.train.link_data import HeldEdges, split_edges, split_sizes, training_lists
from starling.train.link_scores import HeldOut, OwnScores
from starling.train.link_task import LinkTask
from starling.train.link_work import OwnLinkWork
from starling.train.setup import (
    Setup,
    budget,
    check_device,
    check_outputs,
    check_shapes,
    is_shared,
    layers_of,
    make_model,
    read_source,
    resolved_model,
    shapes_of,
)
from starling.train.tasks import Source
from starling.train.work import Work

_DEFAULT_WIDTH = 128


def set_up_links(config: RunConfig, team: Team) -> Setup:
    """Open the data, hold edges out, make the model and the strategy, check that they fit together."""
    check_device(config.run.device)
    settings = resolved_model(config.model)
    how = read_settings(config.strategy.name, config.strategy.settings)
    width = config.link.width or settings.get("hidden", _DEFAULT_WIDTH)
    task = LinkTask(config.link, config.task, width)
    memory = budget(config)
    if is_shared(config):
        raise InputError("Link prediction runs in one process so far, got several workers. Pass --workers 1.")
    source = read_source(config, memory)
    embeddings = table_of(source.features)
    check_embeddings(embeddings is not None, config.sync.name)
    _check_standard(config, source)
    held = held_by(source)
    split = split_edges(held, config.link, config.run.seed)
    _check_validation(config, split_sizes(held, split)["val"])
    check_shapes(config, source.features.width, task.outputs)
    shapes = shapes_of(source, task.outputs)
    model = make_model(config, shapes)
    if ":" in config.model.name:
        check_outputs(config.model.name, model, source, task.outputs)
    work: Work = _own_work(config, how, source, held, split, task, layers_of(config, model), memory)
    data = config.data.model_copy(update={"path": config.data.path.resolve(), **asdict(shapes)})
    final = config.model_copy(
        update={
            "data": data,
            "model": Choice(name=config.model.name, settings=dict(settings)),
            "strategy": Choice(name=config.strategy.name, settings=how.model_dump()),
            "embedding": config.embedding.model_copy(update={"dim": 0 if embeddings is None else embeddings.width}),
            "task": config.task.model_copy(update={"name": task.kind, "metric": task.score.name}),
        }
    )
    return Setup(final, task, shapes, model, work, embeddings)


def held_by(source: GraphSource) -> HeldEdges:
    """All edges of a graph, as one process holds them."""
    relation = source.edge_tables.get("type")

    def column(name: str) -> NDArray[Any] | None:
        values = read_edge_table(source.path, name)
        return None if values is None else values[source.incoming.edge]

    return HeldEdges(
        source.path,
        source.incoming,
        np.arange(source.nodes),
        None if relation is None else relation.numpy(),
        source.nodes,
        source.directed,
        column,
        source.total,
        lambda values: [values],
    )


def training_source(source: GraphSource, held: HeldEdges, split: NDArray[np.uint8]) -> GraphSource:
    """The same graph without held-out edges."""
    lists, stays = training_lists(held, split)
    chosen = torch.from_numpy(np.flatnonzero(stays))
    return replace(source, incoming=lists, edge_tables={name: table[chosen] for name, table in source.edge_tables.items()})


def _own_work(
    config: RunConfig,
    how: Strategy.Settings,
    source: GraphSource,
    held: HeldEdges,
    split: NDArray[np.uint8],
    task: LinkTask,
    layers: int,
    memory: int,
) -> OwnLinkWork:
    """All of it in this process."""
    run, training = config.run, training_source(source, held, split)
    known = known_pairs(training.incoming, held.position)
    check_possible(held.nodes, known.linked_to_all(held.position, held.nodes))
    weight, relation = (training.edge_tables.get(name) for name in ("weight", "type"))
    deal = DealTask(
        NeighbourSource(training.incoming, training.nodes, edge_weight=None if weight is None else weight.numpy()),
        negative_sampler(config, held, known, np.diff(training.incoming.offsets)),
        layers,
        None if relation is None else relation.numpy(),
        run.seed,
        config.link.target_share,
    )
    everything = known_pairs(held.lists, held.position)
    held_out = HeldOut(
        held, split, config.link, task.link_score, run.seed, everything, lambda one, other: everything.holds(other, one)
    )
    return OwnLinkWork(
        LinkStrategy(config.strategy.name, how, deal),
        Filler(training, seed=run.seed, device=run.device, reuse=run.reuse),
        Inference(training, memory, run.device, run.reuse),
        OwnScores(held_out),
    )


def negative_sampler(config: RunConfig, held: HeldEdges, known: KnownPairs, degree: NDArray[Any]) -> NegativeSampler:
    """How negatives of training edges are drawn; `degree` [V] are training edges into each position."""
    link = config.link
    parts = None
    if link.negatives == "local" and read_json(config.data.path).get("format") == "starling-parts":
        opened = open_parts(config.data.path)
        parts = PartRanges(opened.offsets, opened.position_of_global, opened.global_of_position)
    cumulative = degree_weights(degree) if link.negatives == "degree" else None
    return NegativeSampler(link.negatives, link.count, held.nodes, held.directed, known, cumulative, parts)


def _check_validation(config: RunConfig, edges: int) -> None:
    wanted = "--patience" if config.run.patience else "--schedule plateau" if config.schedule.name == "plateau" else None
    if wanted and not edges:
        raise InputError(f"{wanted} needs validation edges, and there are none. Leave it out, or give them a share.")


def _check_standard(config: RunConfig, source: Source) -> None:
    if config.data.normalize == "standard" and not source.split_sizes["train"]:
        raise InputError(
            "--normalize standard goes by training nodes, and link prediction has training edges. Pass --normalize rows or none."
        )
