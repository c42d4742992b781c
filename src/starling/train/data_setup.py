"""From a config to the work of a data-parallel worker: what it samples from, its schedule, its stages."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from starling.comm.tags import Channel
from starling.core.errors import InputError
from starling.engine.data.before import EdgesBefore
from starling.engine.data.compact import Compactor, DeviceCopy
from starling.engine.data.features import OneTable, PulledFeatures, Scaled, TablesByType, TypeTable
from starling.engine.data.fetch import Fetcher
from starling.engine.data.inclusion import fill_cache, inclusion_probability
from starling.engine.data.kv import KeyValueStore
from starling.engine.data.neighbours import AllParts, MakeHops, Neighbourhood, OwnParts
from starling.engine.data.past import PastSampler, past_lists
from starling.engine.data.places import Places, open_places
from starling.engine.data.sample import BlockSampler, Sampled
from starling.engine.data.schedule import GlobalShuffle, LocalShuffle, PartShuffle, Schedule, Scheduled, TrainingNodes
from starling.engine.data.stages import Stages
from starling.engine.embeddings.features import EmbeddedFeatures
from starling.engine.features import normalized, scaling_of
from starling.engine.hybrid.fill import TeamFiller
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.share.source import WorkerSource, raw_features
from starling.engine.source import SourceRequest
from starling.engine.typed_features import TypedFeatures
from starling.plan.fanouts import Fanout, by_relation, one_a_layer
from starling.plan.hops import HopSampler
from starling.plan.mini import Mini, hop_samplers, past_hops
from starling.plan.source import EdgeColumns, NeighbourSource
from starling.plan.strategy import Strategy
from starling.plan.timed import PastLists
from starling.train.averaging.evaluation import PartsEvaluation, evaluate_part_by_part
from starling.train.budget import data_memory, pipeline_memory
from starling.train.config import RunConfig
from starling.train.data_work import DataWork
from starling.train.embeddings import table_of
from starling.train.graph_checks import check_features_fit
from starling.train.past_evaluation import PastEvaluation, fetching_calls, learnt_calls, sampling_calls
from starling.train.team_evaluation import TeamEvaluation

_PAGES_SHARE = 4
"""One part in so many of a worker's data may be pages of each mapped table."""


def data_work(config: RunConfig, how: Strategy.Settings, source: WorkerSource, layers: int) -> DataWork:
    """The work of one worker; all workers call this at the same time."""
    how, run, team = _checked(config, how), config.run, source.team
    places = open_places(source.path, team)
    memory = data_memory(config, team.size)
    store = KeyValueStore(places, resident=None if run.memory is None else memory // _PAGES_SHARE)
    schedule = _schedule(config, how, source, places)
    if config.team.cache and places.far:
        _fill_cache(config, how, source, store, schedule, layers)
    features = pulled_features(config, source, store)
    past = _past(config, how, source, store, layers) if how.past else None
    sample: Callable[[Scheduled], Sampled]
    if past is None:
        sample = BlockSampler(_neighbourhood(config, how, source, places, layers), layers, run.seed, team.ledger)
    else:
        sample = past(0, ledger=team.ledger)
    stages = Stages(
        schedule=schedule,
        sample=sample,
        fetch=_fetcher(config, source, store, features),
        compact=Compactor(team, run.seed),
        copy=DeviceCopy(team.device),
    )
    whole: TeamEvaluation | PartsEvaluation | PastEvaluation
    if past is None:
        whole = _whole(config, source, places, layers, memory)
    else:  # no pass over the whole graph gives them: every node has another past
        fetch = _fetcher(config, source, store, features, calls=fetching_calls, learnt_calls=learnt_calls, counted=False)
        first = int(places.worker_bounds[team.rank])
        whole = PastEvaluation(source, first, past(1, calls=sampling_calls), fetch, stages.compact, stages.copy, memory)
    talks = bool(places.far) or (source.features.learnt and team.size > 1)
    pipeline = config.pipeline.model_copy(update={"memory": pipeline_memory(config, team.size)})
    return DataWork(team, stages, pipeline, schedule.steps_per_epoch, whole, talks)


def _checked(config: RunConfig, how: Strategy.Settings) -> Mini.Settings:
    """Settings of a strategy by which each worker can make batches of its own."""
    if not isinstance(how, Mini.Settings):
        raise InputError(
            f"Workers of --parallel data compute mini-batches of their own, got the strategy {config.strategy.name}. Pass "
            "--strategy mini, or --parallel hybrid."
        )
    if how.sampling == "layerwise":
        raise InputError(
            "Layer-wise sampling draws from all rows of a layer at once, which no worker of --parallel data has in one place. "
            "Use one worker without --parallel data, or --set strategy.sampling=uniform."
        )
    return how


def _fill_cache(
    config: RunConfig, how: Mini.Settings, source: WorkerSource, store: KeyValueStore, schedule: Schedule, layers: int
) -> None:
    """Copy the features of other hosts that an epoch is likely to read most often, as many as may be kept."""
    places, calls = store.places, Calls(0, Channel.STORE)
    tables = [name for name in places.parts.manifest.node_tables if name.partition("@")[0] == "x"]
    if not tables:
        return
    targets = np.concatenate([schedule.step(1, step).targets for step in range(schedule.steps_per_epoch)])
    fanouts: Sequence[Fanout | Sequence[Fanout]] = (
        one_a_layer(how.fanouts, layers)
        if how.type_fanouts is None
        else by_relation(how.type_fanouts, places.parts.manifest.edge_types, source.relations, layers)
    )
    own_only = config.team.local_only
    chance = inclusion_probability(places, targets, 1 / schedule.steps_per_epoch, fanouts, calls, own_only=own_only)
    fill_cache(store, tables, config.team.cache, chance, calls)


def _past(
    config: RunConfig, how: Mini.Settings, source: WorkerSource, store: KeyValueStore, layers: int
) -> Callable[..., PastSampler[tuple[PastLists, PastLists]]]:
    """Samplers of pasts on the same lists: number 0 takes the fan-outs of training, number 1 all edges."""
    threads = config.team.threads

    def make(lists: NeighbourSource) -> tuple[PastLists, PastLists]:
        some = PastLists(lists, past_hops(how, lists, layers), replace=how.replace, threads=threads)
        return some, PastLists(lists, (("all",),) * layers, threads=threads)

    relations = source.relations if how.type_fanouts is not None else 0
    lists = past_lists(store.places, make, relations, entries=bool(source.edge_tables))

    def sampler(number: int, **more: Any) -> PastSampler[tuple[PastLists, PastLists]]:
        choose = operator.itemgetter(number)
        return PastSampler(store, lists, choose, layers, config.run.seed, before=config.data.before, **more)

    return sampler


def _fetcher(config: RunConfig, source: WorkerSource, store: KeyValueStore, features: PulledFeatures, **more: Any) -> Fetcher:
    before = edges_before(config)
    return Fetcher(
        store,
        edge_tables=tuple(source.edge_tables),
        features=features,
        weighted="weight" in source.edge_tables,
        embeddings=table_of(source.features),
        row_of=source.features.row_of if isinstance(source.features, EmbeddedFeatures) else None,
        weights=None if before is None else partial(before.weights, store.places),
        degrees=None if before is None else partial(before.degrees, store.places),
        loops=None if before is None else partial(before.loops, store.places),
        **more,
    )


def _neighbourhood(config: RunConfig, how: Mini.Settings, source: WorkerSource, places: Places, layers: int) -> Neighbourhood:
    kind = OwnParts if config.team.local_only else AllParts
    columns = EdgeColumns(
        weight="weight" if how.sampling == "weighted" else None,
        relations=source.relations if how.type_fanouts is not None else 0,
        timed=config.data.before is not None,
    )
    return kind(places, make_hops_of(config, how, layers), columns, entries=bool(source.edge_tables))


def edges_before(config: RunConfig) -> EdgesBefore | None:
    """The edges that a run may see, where it may not see all."""
    return None if config.data.before is None else EdgesBefore(config.data.before)


def make_hops_of(config: RunConfig, how: Mini.Settings, layers: int) -> MakeHops:
    """From a part's lists to the samplers of a run."""

    def make_hops(lists: NeighbourSource) -> Sequence[HopSampler]:
        return hop_samplers(how, lists, layers, config.team.threads)

    before = edges_before(config)
    return make_hops if before is None else before.hops(make_hops)


def _schedule(config: RunConfig, how: Mini.Settings, source: WorkerSource, places: Places) -> Schedule:
    team, run = source.team, config.run
    rows = source.splits["train"]
    mine, position = rows + places.worker_bounds[team.rank], source.graph.position[rows]
    everybody = [np.concatenate(team.all_lists(source.calls.next_tag(), values)) for values in (mine, position)]
    nodes = TrainingNodes(*everybody)  # by rank, so ids ascend
    if config.team.shuffle == "global":
        return GlobalShuffle(nodes, how.batch_size, team.rank, team.size, seed=run.seed, shuffle=how.shuffle)
    if config.team.local_only:
        return PartShuffle(nodes, how.batch_size, places.parts.offsets, places.own, seed=run.seed, shuffle=how.shuffle)
    return LocalShuffle(nodes, how.batch_size, team.rank, places.homes, seed=run.seed, shuffle=how.shuffle)


def pulled_features(config: RunConfig, source: WorkerSource, store: KeyValueStore) -> PulledFeatures:
    """Where a step's features come from: 'x', or the tables of node types."""
    fixed = source.features.fixed if isinstance(source.features, EmbeddedFeatures) else source.features
    if not isinstance(fixed, TypedFeatures):
        return OneTable(store, feature_scaling(config, source))
    manifest = source.graph.manifest
    scaled = raw_features(source.graph, True)
    assert isinstance(scaled, TypedFeatures)
    scaled = scaled.scaled(config.data.normalize, source.splits.get("train", np.empty(0, np.int64)), source.total)
    tables = []
    for kind, table in zip(manifest.node_types, scaled.tables, strict=True):
        name = f"x@{kind}" if f"x@{kind}" in manifest.node_tables else "x" if "x" in manifest.node_tables else None
        tables.append(TypeTable(None) if table is None else TypeTable(name, scaling_of(table)))
    return TablesByType(store, tables, fixed.width)


def feature_scaling(config: RunConfig, source: WorkerSource) -> Scaled | None:
    """How pulled features are normalised; statistics are those of all workers' training nodes."""
    if config.data.normalize == "none":
        return None
    raw = raw_features(source.graph, by_type=False)
    training = source.splits.get("train", np.empty(0, np.int64))
    return scaling_of(normalized(raw, config.data.normalize, training, source.total))


def _whole(
    config: RunConfig, source: WorkerSource, places: Places, layers: int, memory: int
) -> TeamEvaluation | PartsEvaluation:
    """Exact outputs of all nodes, each worker its own: the hybrid engine's pass over the whole graph.

    Where features are more than `--memory` may hold of them, part by part instead, as with averaged models.
    """
    run, features = config.run, source.features
    plain = not (places.far or features.learnt or features.type_widths or config.task.name == "link")
    plain = plain and config.data.before is None
    if run.memory is not None and plain and 4 * source.nodes * features.width > memory * source.team.size // 2:
        request = SourceRequest(config.data.normalize, tuple(source.edge_tables))
        return evaluate_part_by_part(config.data.path, source.team, request, memory // 2, str(source.team.device))
    check_features_fit(config, source)
    whole = source.local_graph(source.graph.whole_layer, source.calls)
    return TeamEvaluation(source, TeamFiller(source, whole, run.seed, run.reuse), layers)
