"""From a split run of link prediction to the work of one worker, of either parallelism; all workers call these together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import nn

from starling.core.errors import InputError
from starling.engine.data.compact import Compactor, DeviceCopy
from starling.engine.data.fetch import FetchedStep, Fetcher
from starling.engine.data.kv import KeyValueStore
from starling.engine.data.links import LinkSchedule, ScheduledLinks, link_hops, training_bits, training_degrees, training_loops
from starling.engine.data.neighbours import AllParts
from starling.engine.data.places import Places
from starling.engine.data.sample import BlockSampler
from starling.engine.data.stages import Stages
from starling.engine.embeddings.features import EmbeddedFeatures
from starling.engine.fill import FilledBatch
from starling.engine.hybrid.fill import Sending, TeamFiller
from starling.engine.hybrid.planning.boundary import Boundary
from starling.engine.hybrid.planning.chances import chances_by_choice
from starling.engine.hybrid.planning.links import TeamLinks
from starling.engine.hybrid.planning.steps import TeamTask
from starling.engine.hybrid.share.row_requests import Addresses, find_addresses
from starling.engine.hybrid.share.source import WorkerSource
from starling.kernels.adjacency import NO_ROWS
from starling.plan.links.local_nodes import PartRanges
from starling.plan.links.negatives import known_pairs
from starling.plan.links.strategy import DealTask, TargetPicker, deal_of
from starling.plan.mini import Mini
from starling.plan.source import EdgeColumns
from starling.store.parts import open_parts
from starling.train.data_setup import make_hops_of, pulled_features
from starling.train.embeddings import table_of
from starling.train.habits import check_boundary_mean, habits_of
from starling.train.links.batch import with_pairs
from starling.train.links.run import LinkRun
from starling.train.links.sources import training_share
from starling.train.links.team import DataLinkWork, EdgeLookup, TeamLinkWork, TeamScores
from starling.train.team_evaluation import TeamEvaluation


def hybrid_link_work(run: LinkRun, source: WorkerSource, model: nn.Module) -> TeamLinkWork:
    """All workers compute each step together."""
    share = _share(run, source)
    team, loop, training = run.config.team, run.config.run, share.training
    chances = chances_by_choice(team.boundary_choice, source.graph, source.team, team.boundary, source.calls.next_tag())
    boundary = Boundary(training.graph, team.boundary, loop.seed, chances)
    task = TeamTask(training.graph, source.team, NO_ROWS, run.layers, loop.seed, boundary, source.calls)
    strategy = TeamLinks(task, run.config.strategy.name, run.how, share.deal, share.edges, share.addresses)
    habits = habits_of(model, training)
    check_boundary_mean(team, habits.means, first_kept=False)
    raw = not source.features.learnt and habits.sums_raw_input
    mirrors = training.mirrors_of(training.x) if raw and team.boundary > 0 else None
    whole = training.local_graph(training.graph.whole_layer, training.calls)
    sending, ratio = Sending(team.overlap, team.wire), team.boundary_mean == "ratio"
    filler = TeamFiller(training, whole, loop.seed, loop.reuse, mirror_x=mirrors, sending=sending, ratio_means=ratio)
    return TeamLinkWork(strategy, TeamEvaluation(training, filler, run.layers), share.scores)


def data_link_work(run: LinkRun, source: WorkerSource) -> DataLinkWork:
    """Each worker computes pairs of its own."""
    config, how, team = run.config, run.how, source.team
    _check_data(run, source)
    assert isinstance(how, Mini.Settings)
    share = _share(run, source)
    places = Places(open_parts(source.path), team)
    store = KeyValueStore(places)
    picker = TargetPicker(share.deal, deal_of(config.strategy.name, how, share.edges, config.run.seed, 1.0))
    trained = training_bits(share.training.graph.incoming.edge, source.graph.manifest.edges, source.total)
    hops = link_hops(make_hops_of(config, how, run.layers), trained, picker.deal)
    relations = source.relations if how.type_fanouts is not None else 0
    columns = EdgeColumns(relations=relations, timed=config.data.before is not None)
    around = AllParts(places, hops, columns, entries=bool(source.edge_tables))
    compact = Compactor(team, config.run.seed)

    def with_its_pairs(fetched: FetchedStep) -> FilledBatch:
        scheduled = fetched.sampled.scheduled
        assert isinstance(scheduled, ScheduledLinks)
        return with_pairs(compact(fetched), scheduled.pairs, scheduled.total)

    stages = Stages(
        schedule=LinkSchedule(picker, share.addresses, team),
        sample=BlockSampler(around, run.layers, config.run.seed, team.ledger),
        fetch=Fetcher(
            store,
            edge_tables=tuple(source.edge_tables),
            features=pulled_features(config, source, store),
            embeddings=table_of(source.features),
            row_of=source.features.row_of if isinstance(source.features, EmbeddedFeatures) else None,
            degrees=training_degrees(places, trained),
            loops=training_loops(places, trained),
        ),
        compact=with_its_pairs,
        copy=DeviceCopy(team.device),
    )
    whole = share.training.local_graph(share.training.graph.whole_layer, share.training.calls)
    filler = TeamFiller(share.training, whole, config.run.seed, config.run.reuse)
    evaluation = TeamEvaluation(share.training, filler, run.layers)
    return DataLinkWork(team, stages, config.pipeline, picker.deal.steps, evaluation, team.size > 1, share.scores)


@dataclass(frozen=True, eq=False)
class _Share:
    """What both kinds of workers have: the training graph, what is dealt out of it, and what evaluations score."""

    training: WorkerSource
    addresses: Addresses
    deal: DealTask
    edges: int
    """Training edges of all workers."""
    scores: TeamScores


def _share(run: LinkRun, source: WorkerSource) -> _Share:
    held, team = run.held, source.team
    training = training_share(source, run.trains)
    addresses = find_addresses(source.graph, team, source.calls.next_tag())
    parts = PartRanges(np.array(source.graph.manifest.offsets), addresses.position_of_global, addresses.global_of_position)
    known = known_pairs(held.lists, held.position)
    held_out = run.held_out(known, EdgeLookup(addresses, team, source.calls, known))
    deal = run.deal(training, training.graph.incoming, parts)
    return _Share(training, addresses, deal, run.rule.sizes["train"], TeamScores(held_out, training, addresses))


def _check_data(run: LinkRun, source: WorkerSource) -> None:
    team, name = run.config.team, run.config.strategy.name
    if not isinstance(run.how, Mini.Settings):
        raise InputError(
            f"Workers of --parallel data compute mini-batches of their own, got the strategy {name}. Pass --strategy mini, or "
            "--parallel hybrid."
        )
    if team.local_only or team.shuffle:
        asked = "--local-only" if team.local_only else f"--shuffle {team.shuffle}"
        raise InputError(
            f"The ends of a pair lie in any part, and edges are dealt alike to any number of workers, got {asked}. Leave it out."
        )
    if team.cache:
        raise InputError("A cache of features is for node tasks so far, got --cache with --task link. Leave it out.")
    if "weight" in source.edge_tables:
        raise InputError(
            "Edge weights of link prediction are for one worker or --parallel hybrid so far, got --parallel data. Leave them out."
        )
