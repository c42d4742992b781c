"""From a config to the checked parts of a run of link prediction, before any step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starling.comm.team import Team
from starling.core.errors import InputError
from starling.core.manifest import read_json
from starling.engine.fill import Filler
from starling.engine.hybrid.share.source import WorkerSource
from starling.engine.source import GraphSource
from starling.infer.layerwise import Inference
from starling.plan.links.local_nodes import PartRanges
from starling.plan.links.negatives import (
    known_pairs,
)
from starling.plan.links.strategy import LinkStrategy, check_dealt
from starling.store.parts import open_parts
from starling.train.budget import team_budget
from starling.train.config import RunConfig
from starling.train.embeddings import check_embeddings, table_of
from starling.train.gathering_lists import gathered_for
from starling.train.graph_checks import check_edges, check_features_fit
from starling.train.links.edge_split import find_split
from starling.train.links.run import LinkRun
from starling.train.links.scores import OwnScores
from starling.train.links.sources import all_edges, held_by, held_by_worker, training_source
from starling.train.links.task import LinkTask
from starling.train.links.team_setup import data_link_work, hybrid_link_work
from starling.train.links.work import OwnLinkWork
from starling.train.model import check_outputs, layers_of, make_model, shapes_of
from starling.train.reading import read_share, read_source
from starling.train.setup import Setup, check_choices, check_shapes, decided, is_shared
from starling.train.tasks import Source
from starling.train.work import Work

_DEFAULT_WIDTH = 128


def set_up_links(config: RunConfig, team: Team) -> Setup:
    """Open the data, hold edges out, make the model and the strategy, check that they fit together."""
    settings, how = check_choices(config)
    check_dealt(config.strategy.name, how)
    task = link_task(config, settings)
    memory = team_budget(config, team.size)
    source = read_share(config, memory, team) if is_shared(config) else read_source(config, memory)
    embeddings = table_of(source.features)
    check_embeddings(embeddings is not None, config.sync.name)
    check_standard(config, source)
    if isinstance(source, WorkerSource) and config.team.parallel == "hybrid":
        source = gathered_for(source, "link prediction needs")
    held = held_by_worker(source) if isinstance(source, WorkerSource) else held_by(source)
    edges = all_edges(source, held)
    rule = find_split(edges, config.link, config.run.seed)
    check_validation_edges(config, rule.sizes["val"])
    check_shapes(config, source.features.width, outputs=None)
    check_edges(config, how, source)
    shapes = shapes_of(source, task.outputs)
    model = make_model(config, shapes)
    if ":" in config.model.name:
        check_outputs(config.model.name, model, source, task.outputs)
    if isinstance(source, WorkerSource):
        check_features_fit(config, source)
    run = LinkRun(config, how, task, edges, held, rule, rule.of(held), layers_of(config, model))
    if isinstance(source, WorkerSource) and config.team.parallel == "data":
        work: Work = data_link_work(run, source)
    elif isinstance(source, WorkerSource):
        work = hybrid_link_work(run, source, model)
    else:
        work = _own_work(run, source, memory)
    final = decided(config, settings, how, shapes, task, embeddings, link=config.link.with_negatives(config.link.kind))
    return Setup(final, task, shapes, model, work, embeddings)


def link_task(config: RunConfig, settings: Mapping[str, Any]) -> LinkTask:
    """What is learnt; rows are as wide as asked for, or as the inner layers of the model whose `settings` these are."""
    return LinkTask(config.link, config.task, config.link.width or settings.get("hidden", _DEFAULT_WIDTH))


def _own_work(run: LinkRun, source: GraphSource, memory: int) -> OwnLinkWork:
    """All of it in this process."""
    config, loop, held = run.config, run.config.run, run.held
    training = training_source(source, held, run.trains)
    parts = None
    if config.link.kind == "local" and read_json(source.path).get("format") == "starling-parts":
        opened = open_parts(source.path)
        parts = PartRanges(opened.offsets, opened.position_of_global, opened.global_of_position)
    deal = run.deal(training, training.incoming, parts)
    known = known_pairs(held.lists, held.position)
    return OwnLinkWork(
        LinkStrategy(config.strategy.name, run.how, deal),
        Filler(training, seed=loop.seed, device=loop.device, reuse=loop.reuse),
        Inference(training, memory, loop.device, loop.reuse),
        OwnScores(run.held_out(known, lambda one, other: known.holds(other, one))),
    )


def check_validation_edges(config: RunConfig, edges: int) -> None:
    """Refuse settings that go by validation where no edge is held out for it."""
    wanted = "--patience" if config.run.patience else "--schedule plateau" if config.schedule.name == "plateau" else None
    if wanted and not edges:
        raise InputError(f"{wanted} needs validation edges, and there are none. Leave it out, or give them a share.")


def check_standard(config: RunConfig, source: Source) -> None:
    """Refuse features scaled by training nodes where there are none."""
    if config.data.normalize == "standard" and not source.split_sizes["train"]:
        raise InputError(
            "--normalize standard goes by training nodes, and link prediction has training edges. Pass --normalize rows or none."
        )
