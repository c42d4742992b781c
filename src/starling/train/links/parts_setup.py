"""From a config to a run of link prediction that averages models: edges are held out in passes over the parts, then parts train."""

from __future__ import annotations

import numpy as np

from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.data.parts_source import PartsSource
from starling.plan.links.negatives import check_possible
from starling.plan.links.strategy import check_dealt
from starling.train.averaging.embeddings import table_of_parts
from starling.train.averaging.setup import Room, averaged_model, open_averaged, parts_plan
from starling.train.config import RunConfig
from starling.train.links.edge_split import EdgeSplit, find_split
from starling.train.links.parts_edges import complete_part, edges_by_part, held_by_part, training_parts
from starling.train.links.parts_scores import PartsScores
from starling.train.links.parts_work import LinkPartsWork
from starling.train.links.setup import check_standard, check_validation_edges, link_task
from starling.train.model import shapes_of
from starling.train.setup import Setup, check_choices, check_shapes, decided


def set_up_averaged_links(config: RunConfig, team: Team) -> Setup:
    """Look at all parts, hold edges out, make the model, check that everything fits together."""
    settings, how = check_choices(config)
    check_dealt(config.strategy.name, how)
    config = config.model_copy(update={"link": config.link.with_negatives(config.link.negatives or "local")})
    task = link_task(config, settings)
    source = open_averaged(config, team, how)
    check_standard(config, source)
    rule = find_split(edges_by_part(source), config.link, config.run.seed)
    check_validation_edges(config, rule.sizes["val"])
    check_shapes(config, source.features.width, outputs=None)
    shapes = shapes_of(source, task.outputs)
    model = averaged_model(config, source, shapes)
    sizes = np.concatenate(team.all_lists(source.calls.next_tag(), np.array(rule.training, np.int64))).tolist()
    _check_pairs(config, source, rule)
    training = training_parts(source, rule)
    how_scored = task.examination(config.run.seed)
    room, scores = Room.of(config, training, rule.held_out * how_scored.bytes_an_edge), PartsScores(source, rule, how_scored)
    plan, threads = parts_plan(config, how, model), config.team.threads
    work = LinkPartsWork(training, room.shelf, plan, room.evaluation, task, sizes, scores, threads)
    table = table_of_parts(source)
    final = decided(config, settings, how, shapes, task, table, sync=config.sync.resolved)
    return Setup(final, task, shapes, model, work, table)


def _check_pairs(config: RunConfig, source: PartsSource, rule: EdgeSplit) -> None:
    """Refuse a graph, or with local negatives a part that trains, in which every pair is an edge; all workers alike."""
    full, complete = 0, []
    for part, trains in zip(source.mine, rule.training, strict=True):
        held = held_by_part(source, part)
        full += held.linked_to_all()
        if config.link.kind == "local" and trains and complete_part(held):
            complete.append(part)
    check_possible(source.parts.manifest.nodes, int(source.total(np.array([full]))[0]))
    told = np.concatenate(source.team.all_lists(source.calls.next_tag(), np.array(complete, np.int64))).tolist()
    if told:
        nodes = source.parts.manifest.shards[told[0]].nodes
        raise InputError(
            f"Every pair of the {nodes:,} nodes of part {told[0]} is an edge already, so --negatives local finds none there to "
            "tell edges from. Partition into fewer parts, or pass --negatives batch."
        )
