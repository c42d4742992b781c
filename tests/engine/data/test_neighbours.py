"""Distributed sampling takes what one process takes, wherever lists lie and whoever draws; samples are uniform."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.comm.tags import Channel
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.data.local import global_ids, local_source
from starling.engine.data.neighbours import AllParts, OwnParts
from starling.engine.data.places import Places
from starling.engine.data.sample import BlockSampler, Sampled
from starling.engine.data.schedule import Scheduled
from starling.engine.hybrid.messages.calls import Calls
from starling.kernels.sampling import Taken, take_all
from starling.plan.hops import Moment
from starling.plan.mini import Mini, hop_samplers
from starling.plan.registry import make_strategy
from starling.plan.source import EdgeColumns, source_of_graph
from starling.store.graph import Graph
from starling.store.parts import Parts, open_parts
from tests.engine.data.cases import on_hosts, uneven_owner, uneven_parts
from tests.engine.hybrid.runs import cut, small_graph

LAYERS = 3
SETTINGS = {
    "uniform": Mini.Settings(fanouts=(3, 2, "all")),
    "replace": Mini.Settings(fanouts=(3, 2, 2), replace=True),
    "weighted": Mini.Settings(fanouts=(3, 2, 2), sampling="weighted"),
    "all": Mini.Settings(),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return small_graph(tmp_path_factory.mktemp("graph") / "g")


@pytest.fixture(scope="module")
def parts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    return open_parts(uneven_parts(graph, tmp_path_factory.mktemp("parts") / "p"))


def all_parts(parts: Parts, team: Team, settings: Mini.Settings, threads: int = 1) -> AllParts:
    weight = "weight" if settings.sampling == "weighted" else None
    return AllParts(Places(parts, team), lambda lists: hop_samplers(settings, lists, LAYERS, threads), EdgeColumns(weight))


def edges_of(parts: Parts, sampled: Sampled) -> list[list[Any]]:
    """By hop: every edge as (destination, source, imported edge, scale), by positions, in the order of lists."""
    position, first = parts.position_of_global, Places(parts, Team()).first_entry
    imported = np.concatenate([np.asarray(parts.shard(part).incoming.edge) for part in range(len(parts))])
    assert first[-1] == len(imported)
    found = []
    for block in reversed(sampled.blocks):
        rows = np.repeat(np.arange(block.destinations), np.diff(block.offsets))
        scale = np.ones(len(rows)) if block.row_scale is None else block.row_scale[rows]
        scale = scale if block.edge_scale is None else block.edge_scale
        at = position[sampled.inputs]
        found.append(
            sorted(
                zip(
                    at[rows].tolist(), at[block.neighbours].tolist(), imported[block.edge].tolist(), scale.tolist(), strict=True
                )
            )
        )
    return found


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("hosts", [[0], [0, 0], [0, 1, 2, 3], [0, 0, 1, 1], [0, 1, 1, 1, 2]])
def test_any_team_takes_what_one_process_takes(graph: Graph, parts: Parts, name: str, hosts: list[int]) -> None:
    """The targets are dealt to the workers; together they take the edges of one process's batch, with the same scales."""
    settings = SETTINGS[name].model_copy(update={"batch_size": 20})
    lists = source_of_graph(graph, weight="weight" if name == "weighted" else None)
    alone = make_strategy("mini", settings, lists, np.flatnonzero(graph.node_table("train")), LAYERS, 7).plan(2, 1)
    targets = np.sort(np.asarray(parts.global_of_position)[alone.targets])

    def work(team: Team) -> list[list[Any]]:
        mine = targets[team.rank :: team.size]
        sampler = BlockSampler(all_parts(parts, team, settings, threads=1 + team.rank % 2), LAYERS, 7)
        return edges_of(parts, sampler(Scheduled(4, 2, 1, mine, len(targets))))

    together = on_hosts(hosts, work)
    for hop, block in enumerate(reversed(alone.blocks)):
        rows = np.repeat(np.arange(block.destinations), np.diff(block.offsets))
        scale = np.ones(len(rows)) if block.row_scale is None else block.row_scale[rows]
        scale = scale if block.edge_scale is None else block.edge_scale
        wanted = {
            (int(d), int(s), int(lists.incoming.edge[e])): float(x)
            for d, s, e, x in zip(alone.inputs[rows], alone.inputs[block.neighbours], block.edge, scale, strict=True)
        }
        found = {(d, s, e): x for of_worker in together for d, s, e, x in of_worker[hop]}
        assert found.keys() == wanted.keys()
        assert all(found[key] == pytest.approx(wanted[key], rel=1e-6) for key in wanted)


def test_samples_are_uniform(graph: Graph, parts: Parts) -> None:
    """χ² of how often each in-edge of a hub is taken over many steps, two at a time, by its owner for a worker of another host."""
    degree = np.diff(source_of_graph(graph).incoming.offsets)
    hub = int(np.asarray(parts.global_of_position)[int(np.argmax(degree))])
    length, times = int(degree.max()), 600

    def work(team: Team) -> tuple[bool, Counter[int]]:
        around, seen = all_parts(parts, team, Mini.Settings(fanouts=(2, 1, 1))), Counter[int]()
        for step in range(times):
            taken = around.take(around.rows_of(np.array([hub])), Moment(3, 1, step, 0), Calls(step, Channel.SAMPLE))
            seen.update(taken.entry.tolist())
        bounds = Places(parts, team).worker_bounds
        return bounds[team.rank] <= hub < bounds[team.rank + 1], seen

    (_, near), (_, far) = sorted(on_hosts([0, 1], work), key=lambda told: not told[0])
    assert near == far
    expected = 2 * times / length
    # Two of `length` are drawn without replacement, so counts vary less than independent ones: by (length − 2) / (length − 1).
    statistic = sum((far[entry] - expected) ** 2 / expected for entry in far) * (length - 1) / (length - 2)
    assert len(far) == length
    assert 0.1 * (length - 1) < statistic < length - 1 + 4 * np.sqrt(2 * (length - 1))


def test_by_itself_a_part_ends_at_its_halo(graph: Graph, tmp_path: Path) -> None:
    """--local-only: own rows have whole lists, rows of the last halo hop have none; two halo hops reach one hop further."""
    owner = uneven_owner(graph.nodes)
    for hops in (1, 2):
        parts = open_parts(cut(graph, tmp_path / f"{hops}", 5, owner, halo_hops=hops))
        shard = parts.shard(2)
        lists, ids = local_source(shard), global_ids(shard)
        assert lists.incoming.rows == shard.local == len(ids)
        degrees = np.diff(lists.incoming.offsets)
        listed = shard.owned + (shard.record.halo[0] if hops == 2 else 0)
        np.testing.assert_array_equal(degrees[:listed], shard.in_degree[:listed])
        assert not degrees[listed:].any()
        np.testing.assert_array_equal(np.asarray(parts.position_of_global)[ids], shard.position)


def test_local_only_takes_from_each_part_what_it_has(graph: Graph, parts: Parts) -> None:
    def work(team: Team) -> None:
        places = Places(parts, team)
        own = OwnParts(places, lambda lists: hop_samplers(Mini.Settings(), lists, LAYERS, 1))
        targets = np.arange(places.worker_bounds[team.rank], places.worker_bounds[team.rank + 1])
        sampled = BlockSampler(own, LAYERS, 0)(Scheduled(0, 1, 0, targets, 61))
        np.testing.assert_array_equal(sampled.inputs[: len(targets)], targets)
        sent = team.ledger.close().bytes_to
        assert not any(sent)
        for hop in range(LAYERS):
            block = list(reversed(sampled.blocks))[hop]
            lengths = np.diff(block.offsets)
            degrees = np.concatenate([parts.shard(p).in_degree[: parts.shard(p).owned] for p in places.own])
            np.testing.assert_array_equal(lengths[: len(targets)], degrees)
            assert not lengths[len(targets) :].any()  # halo rows

    on_hosts([0, 1], work)


def test_one_far_worker_answers_for_rows_of_several_parts(parts: Parts) -> None:
    """All rows lie with the other host, in any order of its parts: the answer comes back in the order of the rows."""
    bounds, alone = [0, 2, 5], all_parts(parts, Team(), SETTINGS["all"])

    def work(team: Team) -> None:
        around, other = all_parts(parts, team, SETTINGS["all"]), 1 - team.rank
        ids = np.concatenate(
            [np.arange(*parts.offsets[part : part + 2])[:4] for part in range(bounds[other], bounds[other + 1])]
        )
        rows = around.rows_of(ids[::-1])
        taken = around.take(rows, Moment(0, 1, 0, 0), Calls(0, Channel.SAMPLE))
        expected = alone.take(rows, Moment(0, 1, 0, 0), Calls(0, Channel.SAMPLE))
        for name in ("offsets", "neighbours", "entry"):
            np.testing.assert_array_equal(getattr(taken, name), getattr(expected, name), name)

    on_hosts([0, 1], work)


def test_no_row_asks_for_nothing(parts: Parts) -> None:
    def work(team: Team) -> Taken:
        around = all_parts(parts, team, SETTINGS["uniform"])
        return around.take(around.rows_of(np.empty(0, np.int64)), Moment(0, 1, 0, 0), Calls(0, Channel.SAMPLE))

    for taken in on_hosts([0, 1, 2], work):
        assert taken.offsets.tolist() == [0]


def test_what_cannot_be_sampled_is_refused(graph: Graph, tmp_path: Path) -> None:
    owner, draw = uneven_owner(graph.nodes), np.random.default_rng(1)
    spread = cut(graph, tmp_path / "vertex", 5, owner, draw.choice([0, 2, 3, 4], graph.manifest.edges))
    with pytest.raises(InputError, match="whole neighbour lists, got a vertex-cut"):
        Places(open_parts(spread), Team())
    isolated = cut(graph, tmp_path / "isolated", 5, owner, halo_hops=0)
    with pytest.raises(InputError, match="zero halo hops"):
        Places(open_parts(isolated), Team())


def test_one_part_is_taken_as_it_is(graph: Graph, tmp_path: Path) -> None:
    parts = open_parts(cut(graph, tmp_path / "one", 1, np.zeros(graph.nodes)))
    around = all_parts(parts, Team(), SETTINGS["all"])
    rows = around.rows_of(np.array([5, 3]))
    taken = around.take(rows, Moment(0, 1, 0, 0), Calls(0, Channel.SAMPLE))
    expected = take_all(parts.shard(0).incoming, rows)
    np.testing.assert_array_equal(taken.neighbours, expected.neighbours)
    np.testing.assert_array_equal(taken.entry, expected.entry)
