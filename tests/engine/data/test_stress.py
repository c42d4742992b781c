"""Two hundred random teams: parts, empty parts, hosts, batch sizes, fan-outs, weights, edge tables, caches, parts by themselves,
depths, delays, early ends. None hangs or errs."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.engine.data.compact import Compactor, DeviceCopy
from starling.engine.data.fetch import Fetcher
from starling.engine.data.inclusion import fill_cache, inclusion_probability
from starling.engine.data.kv import KeyValueStore
from starling.engine.data.neighbours import AllParts, OwnParts
from starling.engine.data.places import Places
from starling.engine.data.sample import BlockSampler
from starling.engine.data.schedule import GlobalShuffle, LocalShuffle, PartShuffle, Schedule, TrainingNodes
from starling.engine.data.stages import PipelineSettings, Stages
from starling.engine.hybrid.messages.calls import Calls
from starling.plan.mini import Mini, hop_samplers
from starling.plan.source import EdgeColumns
from starling.store.graph import Graph
from starling.store.parts import Parts, open_parts
from starling.train.data_work import DataWork
from tests.engine.data.cases import on_hosts, stage_threads
from tests.engine.hybrid.runs import cut
from tests.support.trainable import trainable_graph

GROUPS, IN_GROUP, SECONDS = 10, 20, 30.0


@dataclass(frozen=True)
class Team200:
    """One configuration, drawn from a seed."""

    parts: int
    hosts: list[int]
    batch_size: int
    fanouts: tuple[Any, ...]
    shuffle: str
    mode: str
    depths: tuple[int, ...]
    memory: int
    epochs: int
    stops_after: int
    delayed: str
    delay: float
    cache: int
    """Bytes of rows of other hosts."""
    edges: bool
    """Steps carry weights and attributes of their edges."""
    weighted: bool
    local_only: bool

    @classmethod
    def drawn(cls, seed: int, trained: int) -> Team200:
        draw = random.Random(seed)
        parts = draw.choice([1, 2, 3, 5, 7])
        workers = draw.randint(1, min(parts, 5))
        batch = draw.choice([draw.randint(1 + trained // 5, trained)] * 3 + [draw.randint(1, 3)])
        epochs = draw.randint(1, 2) if batch > 3 else 1
        fanouts = tuple(draw.choice([1, 2, 5, "all"]) for _ in range(draw.randint(1, 3)))
        return cls(
            parts,
            [draw.randrange(workers) for _ in range(workers)],
            batch,
            fanouts,
            draw.choice(["local", "global"]),
            draw.choice(["non-stop", "non-stop", "epoch", "off"]),
            tuple(draw.randint(1, 3) for _ in range(5)),
            draw.choice([1, 2000, 1 << 30]),
            epochs,
            draw.choice([10**6, draw.randint(0, epochs * -(-trained // batch))]),
            draw.choice(["schedule", "sample", "fetch", "compact", "copy", "training", "nobody"]),
            draw.choice([0.0005, 0.003]),
            draw.choice([0, 0, 100, 10**6]),
            draw.random() < 0.4,
            draw.random() < 0.3 and set(fanouts) != {"all"},
            draw.random() < 0.25,
        )


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    draw = np.random.default_rng(9)
    tables = {"weight": draw.random(240).astype(np.float32), "attr": draw.normal(size=(240, 3)).astype(np.float32)}
    return trainable_graph(tmp_path_factory.mktemp("graph") / "g", nodes=50, edges=240, edge_tables=tables)


@pytest.fixture(scope="module")
def cuts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Parts]:
    """By number of parts; with more than two, some are empty and all training nodes lie in one."""
    made = {}
    for parts in (1, 2, 3, 5, 7):
        owner = np.random.default_rng(parts).integers(0, max(1, parts - 1), graph.nodes)
        if parts > 2:
            owner[np.asarray(graph.node_table("train"))] = 1
        made[parts] = open_parts(cut(graph, tmp_path_factory.mktemp("cut") / f"{parts}", parts, owner))
    return made


def work_of(case: Team200, parts: Parts, graph: Graph, team: Team) -> DataWork:
    places = Places(parts, team)
    position = np.flatnonzero(graph.node_table("train"))
    ids = np.asarray(parts.global_of_position, np.int64)[position]
    order = np.argsort(ids)
    nodes = TrainingNodes(ids[order], position[order])
    schedule: Schedule
    if case.local_only:
        schedule = PartShuffle(nodes, case.batch_size, parts.offsets, places.own, seed=1, shuffle=True)
    elif case.shuffle == "global":
        schedule = GlobalShuffle(nodes, case.batch_size, team.rank, team.size, seed=1, shuffle=True)
    else:
        schedule = LocalShuffle(nodes, case.batch_size, team.rank, places.worker_bounds, seed=1, shuffle=True)
    settings = Mini.Settings(fanouts=case.fanouts, sampling="weighted" if case.weighted else "uniform")
    columns = EdgeColumns(weight="weight" if case.weighted else None)
    around = (OwnParts if case.local_only else AllParts)(
        places, lambda lists: hop_samplers(settings, lists, len(case.fanouts), 1), columns, entries=case.edges
    )
    store = KeyValueStore(places)
    if case.cache and places.far:
        targets = np.concatenate([schedule.step(1, step).targets for step in range(schedule.steps_per_epoch)])
        share, calls = 1 / schedule.steps_per_epoch, Calls(0, Channel.STORE)
        chance = inclusion_probability(places, targets, share, case.fanouts, calls, own_only=case.local_only)
        fill_cache(store, ["x"], case.cache, chance, calls)
    stages = Stages(
        schedule=schedule,
        sample=BlockSampler(around, len(case.fanouts), 1),
        fetch=Fetcher(store, edge_tables=("weight", "attr") if case.edges else (), weighted=case.edges),
        compact=Compactor(team, 1),
        copy=DeviceCopy(),
    )
    if hasattr(stages, case.delayed) and team.rank == 0:
        stages = replace(stages, **{case.delayed: delayed(getattr(stages, case.delayed), case.delay)})
    pipeline = PipelineSettings(mode=case.mode, depths=case.depths, memory=case.memory)
    return DataWork(team, stages, pipeline, schedule.steps_per_epoch, None, bool(places.far))  # type: ignore[arg-type]


def delayed(work: Callable[[Any], Any], seconds: float) -> Callable[[Any], Any]:
    def slow(item: Any) -> Any:
        time.sleep(seconds)
        return work(item)

    return slow


def trained(case: Team200, parts: Parts, graph: Graph, team: Team) -> list[float]:
    """A sum over every step's targets and inputs, added up by the team as gradients are."""
    work, sums = work_of(case, parts, graph, team), []
    with work.prepared(case.epochs) as batches:
        for number in range(min(case.epochs * work.steps_per_epoch, case.stops_after)):
            batch = next(batches)
            for view in batch.views if case.edges else ():
                assert view.graph.edge_attr is not None
                assert view.graph.edge_attr.shape == (view.graph.edges, 3)
            if case.delayed == "training" and team.rank == team.size - 1:
                time.sleep(case.delay)
            mine = torch.stack([batch.x[: len(batch.y)].double().sum(), batch.y.double().sum(), batch.weight.double().sum()])
            sums.append(team.all_sum(make_tag(Channel.GRADIENTS, number, 0), mine).numpy())
    return sums


def in_time(case: Team200, work: Callable[[Team], list[float]]) -> list[list[float]]:
    """What each worker came to; an error if they are not done within the deadline."""
    done: Future[list[list[float]]] = Future()

    def run() -> None:
        try:
            done.set_result(on_hosts(case.hosts, work))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return done.result(SECONDS)
    except TimeoutError:
        raise AssertionError(f"a team hangs: {case}") from None


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_teams(group: int, graph: Graph, cuts: dict[int, Parts]) -> None:
    x, y = np.asarray(graph.node_table("x"), np.float64), np.asarray(graph.node_table("y"))
    train = np.flatnonzero(graph.node_table("train"))
    for seed in range(group * IN_GROUP, (group + 1) * IN_GROUP):
        case = Team200.drawn(seed, len(train))
        first, *others = in_time(case, lambda team, case=case: trained(case, cuts[case.parts], graph, team))
        for other in others:
            np.testing.assert_array_equal(other, first, str(case))
        steps = -(-len(train) // case.batch_size)
        for epoch in range(len(first) // steps):  # of whole epochs: every training node was a target once
            whole = np.sum(first[epoch * steps : (epoch + 1) * steps], axis=0)
            np.testing.assert_allclose(whole, [x[train].sum(), y[train].sum(), steps], rtol=1e-5, err_msg=str(case))
    assert stage_threads() == []


def test_the_draws_meet_everything() -> None:
    """Of the two hundred there are some of each kind."""
    cases = [Team200.drawn(seed, 30) for seed in range(GROUPS * IN_GROUP)]
    assert {case.mode for case in cases} == {"non-stop", "epoch", "off"}
    assert {case.delayed for case in cases} >= {"schedule", "sample", "fetch", "compact", "copy", "training"}
    assert {case.shuffle for case in cases} == {"local", "global"}
    assert sum(len(set(case.hosts)) > 1 for case in cases) > 60
    for name in ("edges", "weighted", "local_only"):
        assert sum(getattr(case, name) for case in cases) > 30, name
    assert sum(case.cache > 0 and len(set(case.hosts)) > 1 for case in cases) > 30
    assert sum(case.batch_size <= 3 for case in cases) > 30
    assert sum(case.stops_after < case.epochs * -(-30 // case.batch_size) for case in cases) > 30
