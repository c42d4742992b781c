"""Inclusion probabilities: by hand, against a whole-graph twin in any team, and against counted batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.comm.in_process import run_threads
from starling.comm.tags import Channel
from starling.comm.team import Team
from starling.engine.data.inclusion import fill_cache, hottest, inclusion_probability
from starling.engine.data.kv import KeyValueStore
from starling.engine.data.places import Places
from starling.engine.hybrid.messages.calls import Calls
from starling.kernels.csr import csr_from_pairs
from starling.plan.mini import Mini
from starling.plan.registry import make_strategy
from starling.plan.source import NeighbourSource
from starling.store.parts import Parts
from tests.support.parts import Case, build

NODES = 40
TARGETS = [1, 2, 5, 7, 9, 11, 13, 14, 15, 18, 20, 22, 23, 26, 28, 30, 32, 35, 38, 39]
"""Positions, so that it does not matter in which order parts lay out their nodes."""


def twin(
    pairs: np.ndarray, nodes: int, targets: np.ndarray, share: float, fanouts: tuple[Any, ...], kinds: np.ndarray | None = None
) -> np.ndarray:
    """The formula, edge by edge; `kinds` are the edges' relations, where fan-outs are by relation."""
    left_out = np.ones(nodes)
    left_out[targets] = 1 - share
    kind = np.zeros(len(pairs), int) if kinds is None else kinds
    degree = np.zeros((nodes, 1 + kind.max()))
    np.add.at(degree, (pairs[:, 1], kind), 1)
    for each in fanouts:
        before = left_out.copy()
        for (u, v), r in zip(pairs, kind, strict=True):
            fanout = each if kinds is None else each[r]
            left_out[u] *= 1 - (1 - before[v]) * (1.0 if fanout == "all" else min(1.0, fanout / degree[v, r]))
    return 1 - left_out


class TwoRelations(Case):
    """Every third edge is of the second relation."""

    def edge_tables(self) -> dict[str, Any]:
        return {**super().edge_tables(), "type": (np.arange(len(self.pairs)) % 3 == 0).astype(np.int32)}


@pytest.fixture(scope="module")
def case() -> Case:
    draw = np.random.default_rng(7)
    owner = draw.choice([0, 1, 3], NODES)  # part 2 is empty
    pairs = np.stack([(NODES * draw.random(260) ** 2).astype(int), draw.integers(0, NODES, 260)], 1)
    return TwoRelations(NODES, pairs, 4, owner)


@pytest.fixture(scope="module")
def parts(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    return build(case, tmp_path_factory.mktemp("inclusion"))


def relabelled(case: Case, parts: Parts) -> np.ndarray:
    return np.asarray(parts.global_of_position)[case.pairs]


def test_by_hand(tmp_path: Path) -> None:
    """0 → 1 and 2 → 1, fan-out 1, target 1 in every other batch: each source is taken with 1/2 · 1/2; so is 3 → 2 after that."""
    case = Case(4, np.array([[0, 1], [2, 1], [3, 2]]), 1, np.zeros(4, int))
    places = Places(build(case, tmp_path), Team())
    found = inclusion_probability(places, np.array([1]), 0.5, (1, 1), Calls(0, Channel.STORE))
    second = 1 - (1 - 0.25) ** 2  # node 0 and node 2 have two chances: each hop takes neighbours of all that is there
    np.testing.assert_allclose(found, [second, 0.5, second, 0.25])
    np.testing.assert_allclose(
        inclusion_probability(places, np.array([1]), 1.0, ("all",), Calls(1, Channel.STORE)), [1, 1, 1, 0]
    )


def test_by_relation_by_hand(tmp_path: Path) -> None:
    """Into 1 come edges of relations 1, 0 and 0 from 0, 2 and 3: one of two, or the only one."""
    case = TwoRelations(4, np.array([[0, 1], [2, 1], [3, 1]]), 1, np.zeros(4, int))
    places = Places(build(case, tmp_path), Team())
    found = inclusion_probability(places, np.array([1]), 1.0, ((1, 1),), Calls(0, Channel.STORE))
    np.testing.assert_allclose(found, [1, 1, 0.5, 0.5])
    found = inclusion_probability(places, np.array([1]), 1.0, (("all", 0),), Calls(1, Channel.STORE))
    np.testing.assert_allclose(found, [0, 1, 1, 1])


@settings(max_examples=20)
@given(st.data())
def test_teams_reckon_what_the_whole_graph_gives(case: Case, parts: Parts, data: st.DataObject) -> None:
    workers, near = data.draw(st.sampled_from([1, 2, 4])), data.draw(st.booleans())
    one: Any = st.sampled_from([0, 1, 3, "all"])
    by_type = data.draw(st.booleans())
    fanouts = tuple(data.draw(st.lists(st.tuples(one, one) if by_type else st.sampled_from([1, 3, "all"]), max_size=3)))
    share = data.draw(st.sampled_from([0.0625, 0.5, 1.0]))
    targets = [np.array(sorted(data.draw(st.sets(st.integers(0, NODES - 1), max_size=9))), int) for _ in range(workers)]

    def work(team: Team) -> np.ndarray:
        team.near = frozenset({team.rank ^ 1} & set(range(team.size))) if near else frozenset()
        return inclusion_probability(Places(parts, team), targets[team.rank], share, fanouts, Calls(0, Channel.STORE))

    for mine, found in zip(targets, run_threads(workers, work), strict=True):
        wanted = twin(relabelled(case, parts), NODES, mine, share, fanouts, case.edge_tables()["type"] if by_type else None)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_ranks_nodes_as_counted_batches_do(case: Case, parts: Parts) -> None:
    """Over many batches, nodes are read about as often as reckoned: choices are not quite independent."""
    pairs, targets = relabelled(case, parts), np.sort(np.asarray(parts.global_of_position)[TARGETS])
    settings = Mini.Settings(batch_size=4, fanouts=(2, 2))
    source = NeighbourSource(csr_from_pairs(pairs, NODES), NODES)
    strategy = make_strategy("mini", settings, source, targets, 2, 0)
    counts = np.zeros(NODES)
    epochs = 300
    for epoch in range(1, epochs + 1):
        for plan in strategy.plans(epoch):
            counts[plan.inputs] += 1
    frequency = counts / (epochs * strategy.steps_per_epoch)
    found = inclusion_probability(Places(parts, Team()), targets, 4 / len(targets), (2, 2), Calls(0, Channel.STORE))
    assert np.abs(found - frequency).max() < 0.08
    assert np.corrcoef(found, frequency)[0, 1] > 0.99


def test_the_hottest_rows_of_other_hosts_fill_the_cache(case: Case, parts: Parts) -> None:
    chance = np.linspace(0, 1, NODES, dtype=np.float32)
    chance[3] = 1.0
    whole = case.tables()["x"][np.asarray(parts.position_of_global)]

    def work(team: Team) -> None:
        places = Places(parts, team)
        store, calls = KeyValueStore(places), Calls(0, Channel.STORE)
        mine = set(range(*places.worker_bounds[team.rank : team.rank + 2]))
        others = sorted(set(range(1, NODES)) - mine, key=lambda node: (-chance[node], node))  # node 0 is never read
        assert hottest(chance, places, 5).tolist() == sorted(others[:5])
        assert len(hottest(chance, places, 1000)) == len(others)
        fill_cache(store, ["x"], 5 * 12 + 11, chance, calls)
        cache = store._caches["x"]
        assert (len(cache), cache.nbytes) == (5, 60)
        np.testing.assert_array_equal(store.pull("x", np.arange(NODES), calls), whole)

    run_threads(2, work)
