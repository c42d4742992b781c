"""Fan-outs, and batches under --boundary, by teams: read in place they are, to the bit, what they are when they are copied.

The graph has self-loops, several edges between two nodes, a part without nodes and one of a single node.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.engine.hybrid.computing.view import TeamView
from starling.engine.hybrid.layers import row_groups
from starling.engine.hybrid.planning import active
from starling.engine.hybrid.planning.taken_edges import TakenEdges
from starling.kernels.adjacency import HUB_EDGES
from starling.nn.later_graph import LaterGraph
from starling.store.graph import Graph
from starling.train.config import RunConfig
from starling.train.setup import set_up
from tests.engine.hybrid.runs import assert_identical, assert_same, config_of, cut, learn_together, steps
from tests.engine.hybrid.test_equal import MODELS, settings_of
from tests.support.card import a_card_for
from tests.support.ranks import run_ranks
from tests.support.trainable import trainable_graph

FANOUTS = {"name": "mini", "batch_size": 20, "fanouts": [3, 2]}
STRATEGIES: dict[str, dict[str, Any]] = {
    "fan-outs": FANOUTS,
    "one of each": {**FANOUTS, "fanouts": [1, 1]},
    "with replacement": {**FANOUTS, "replace": True},
    "by weight": {**FANOUTS, "sampling": "weighted"},
    "all in one layer": {**FANOUTS, "fanouts": ["all", 3]},
}
READ_IN_PLACE = [model for model in MODELS if model != "mlp"]


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small layers, too; and rows in groups where these would not pay."""
    monkeypatch.setattr(active, "worth_a_map", lambda *_: True)
    monkeypatch.setattr(row_groups, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_groups, "LEAST_EDGES", 0)


def copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active, "worth_a_map", lambda *_: False)


def ways(config: RunConfig) -> set[bool]:
    """Whether layers with fan-outs were read in place."""

    def look(team: Team) -> set[bool]:
        found = set()
        for batch in set_up(config, team).work.batches(1):
            for view in batch.views:
                assert isinstance(view, TeamView)
                assert view.layer is not None
                found.add(isinstance(view.layer.edges, TakenEdges))
        return found

    return set().union(*run_threads(config.team.workers, look))


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("model", READ_IN_PLACE)
def test_fan_outs_have_the_bits_of_copies(
    parts: dict[str, Path], monkeypatch: pytest.MonkeyPatch, model: str, workers: int
) -> None:
    config = config_of(parts["edge-cut"], workers, settings_of(model), FANOUTS)
    assert ways(config) == {True}
    in_place = steps(config)
    copied(monkeypatch)
    assert ways(config) == {False}
    assert (in_place == steps(config)).all()


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("model", ["gcn", "gcn weighted", "sage", "sage max", "gat"])
def test_every_way_to_sample_has_the_bits_of_copies(
    parts: dict[str, Path], monkeypatch: pytest.MonkeyPatch, model: str, strategy: str
) -> None:
    """By weight every edge has a scale of its own; with replacement one may be there twice."""
    config = config_of(parts["edge-cut"], 4, settings_of(model), STRATEGIES[strategy])
    assert True in ways(config)
    in_place = steps(config)
    copied(monkeypatch)
    assert (in_place == steps(config)).all()


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("fanouts", [None, [3, 2]])
@pytest.mark.parametrize(
    ("model", "mean"),
    [(model, "unbiased") for model in ("gcn", "gcn weighted", "sage", "sage max", "sage lstm", "gat", "gate")]
    + [("sage", "ratio")],
)
def test_boundaries_have_the_bits_of_copies(
    parts: dict[str, Path], monkeypatch: pytest.MonkeyPatch, model: str, mean: str, fanouts: list[int] | None
) -> None:
    how = {"boundary": 0.4, "boundary_mean": mean}
    config = config_of(parts["edge-cut"], 4, settings_of(model), {**FANOUTS, "fanouts": fanouts}, **how)
    assert ways(config) == {True}
    in_place = steps(config)
    copied(monkeypatch)
    assert (in_place == steps(config)).all()


@pytest.mark.parametrize("model", [{"name": "gcn"}, {"name": "sage"}, {"name": "sage", "aggregate": "max"}, {"name": "gat"}])
def test_hubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: dict[str, Any]) -> None:
    """Every node hears from more than are summed at once. Pieces of hubs are cut elsewhere where skipped entries count."""
    graph = trainable_graph(tmp_path / "g", nodes=16, edges=16 * 3 * HUB_EDGES, without=("val",))
    path = cut(graph, tmp_path, 2, np.arange(16) // 8)
    config = config_of(path, 2, {**model, "hidden": 4}, {"name": "mini", "batch_size": 9}, boundary=0.6)
    assert ways(config) == {True}
    in_place = steps(config)
    copied(monkeypatch)
    np.testing.assert_allclose(in_place, steps(config), rtol=2e-4, atol=2e-5)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("model", READ_IN_PLACE)
def test_teams_learn_what_one_process_learns(
    graph: Graph, parts: dict[str, Path], tmp_path: Path, model: str, workers: int
) -> None:
    (alone,) = learn_together(config_of(graph.path, 1, settings_of(model), FANOUTS), tmp_path / "alone")
    for seen in learn_together(config_of(parts["edge-cut"], workers, settings_of(model), FANOUTS), tmp_path / "team"):
        assert_same(seen, alone)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("boundary", [1.0, 0.4])
@pytest.mark.parametrize("model", ["sage", "gat", "gcn weighted", "sage max", "sage lstm"])
def test_neither_overlap_nor_batches_in_flight_change_a_bit(
    parts: dict[str, Path], tmp_path: Path, model: str, boundary: float
) -> None:
    """Steps in flight read the lists of one graph at once."""
    stale = {"name": "stale", "staleness": 2}
    found = []
    for number, (overlap, sync) in enumerate([(True, stale), (False, stale), (True, {**stale, "in_flight": 3})]):
        config = config_of(parts["edge-cut"], 4, settings_of(model), FANOUTS, overlap=overlap, boundary=boundary)
        config = RunConfig.from_tables({**config.to_tables(), "sync": sync})
        found.append(learn_together(config, tmp_path / f"{number}"))
    for team in found:
        for seen in team:
            assert_identical(seen, found[0][0])


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("model", READ_IN_PLACE)
def test_edges_are_not_listed_by_the_way(parts: dict[str, Path], monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    """Not even to look for loops, some of which were not taken."""
    config = config_of(parts["edge-cut"], 4, settings_of(model), FANOUTS)
    monkeypatch.setattr(LaterGraph, "listed", property(lambda graph: pytest.fail("edges were listed")))
    assert len(steps(config))


def test_layers_that_are_worth_it_are_read_in_place(parts: dict[str, Path]) -> None:
    """A batch of all training nodes has more edges at worker 0 than this has rows, one of a single node has not."""
    config = config_of(parts["edge-cut"], 2, settings_of("sage"), {**FANOUTS, "batch_size": 37, "fanouts": [9, 9]})
    assert True in ways(config)
    assert ways(config_of(parts["edge-cut"], 2, settings_of("sage"), {**FANOUTS, "batch_size": 1})) == {False}


def look_on_cards(team: Team, config: RunConfig) -> list[bool]:
    with a_card_for(team) as carded:
        work = set_up(config.model_copy(update={"run": config.run.model_copy(update={"device": "cuda"})}), carded).work
        return [isinstance(layer.edges, TakenEdges) for plan in work.strategy.plans(1) for layer in plan.layers]  # type: ignore[attr-defined]


def test_cards_are_given_copied_lists(parts: dict[str, Path]) -> None:
    config = config_of(parts["edge-cut"], 2, settings_of("gcn"), {**FANOUTS, "batch_size": 37, "fanouts": [9, 9]})
    assert True in ways(config)
    for seen in run_ranks(2, look_on_cards, config):
        assert seen
        assert not any(seen)
