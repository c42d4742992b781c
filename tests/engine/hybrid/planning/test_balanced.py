"""Cohesive batches by a team, by owners and by balanced maps: what one process learns; loads come out even."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.hybrid.balanced_fill import BalancedFiller
from starling.engine.hybrid.planning.balanced_steps import TeamBalanced
from starling.kernels.least_loaded import to_least_loaded
from starling.plan.calibration import save_calibration
from starling.store.graph import Graph
from starling.train.setup import set_up
from starling.train.work import TeamWork
from tests.engine.hybrid.runs import Learnt, assert_identical, assert_same, config_of, cut, learn_together, small_graph
from tests.support.rates import calibration

NODES = 61
COHESIVE = {"name": "cohesive", "batches": 4, "passes": 3, "clusters_per_batch": 2}
MODELS: dict[str, dict[str, Any]] = {
    "gcn": {"name": "gcn", "norm": "batch", "dropout": 0.3, "layers": 3},
    "weighted": {"name": "gcn", "edge_weights": True},
    "sage": {"name": "sage", "input_dropout": 0.2},
    "gat": {"name": "gat", "heads": 2, "attention_dropout": 0.3},
    "gate": {"name": "gate", "heads": 2},
    "rgcn": {"name": "rgcn", "bases": 2},
    "gcn by relation": {"name": "gcn", "relational": True, "edge_weights": True},
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return small_graph(tmp_path_factory.mktemp("graph") / "g", nodes=NODES)


@pytest.fixture(scope="module")
def parts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five unequal parts, one empty, so that batches lie unevenly with workers."""
    owner = np.random.default_rng(5).choice([0, 2, 3, 4], NODES, p=[0.7, 0.1, 0.1, 0.1])
    return cut(graph, tmp_path_factory.mktemp("parts") / "edge", 5, owner)


@pytest.fixture(scope="module")
def alone(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Learnt]:
    """What one process learns of each model."""
    folder = tmp_path_factory.mktemp("alone")
    return {
        name: learn_together(config_of(graph.path, 1, {"hidden": 8, **model}, COHESIVE), folder / name)[0]
        for name, model in MODELS.items()
    }


@pytest.mark.parametrize(
    ("model", "workers"),
    [("gcn", 2), ("gcn", 4), ("weighted", 4), ("sage", 2), ("gat", 4), ("gate", 2), ("rgcn", 4), ("gcn by relation", 4)],
)
def test_balanced_workers_learn_what_one_process_learns(
    parts: Path, alone: dict[str, Learnt], model: str, workers: int, tmp_path: Path
) -> None:
    config = config_of(parts, workers, {"hidden": 8, **MODELS[model]}, COHESIVE, balance_workers=True)
    for found in learn_together(config, tmp_path / "run"):
        assert_same(found, alone[model])


def test_owners_learn_the_same_and_overlap_changes_no_bit(parts: Path, alone: dict[str, Learnt], tmp_path: Path) -> None:
    model = {"hidden": 8, **MODELS["gcn"]}
    owners = learn_together(config_of(parts, 2, model, COHESIVE), tmp_path / "owners")[0]
    assert_same(owners, alone["gcn"])
    on, off = (
        learn_together(config_of(parts, 2, model, COHESIVE, balance_workers=True, overlap=overlap), tmp_path / str(overlap))[0]
        for overlap in (True, False)
    )
    assert_identical(off, on)


def test_measured_constants_are_the_first_workers(
    graph: Graph, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nothing"))
    strategy, model = COHESIVE | {"costs": "measured"}, {"name": "gcn", "hidden": 8}
    with pytest.raises(InputError, match="There is no calibration in"):
        set_up(config_of(graph.path, 1, model, strategy), Team())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    save_calibration(calibration())
    one = learn_together(config_of(graph.path, 1, model, strategy), tmp_path / "one")[0]
    assert_same(learn_together(config_of(parts, 2, model, strategy, balance_workers=True), tmp_path / "two")[0], one)


def test_regrouped_batches_are_those_of_one_process(graph: Graph, parts: Path, tmp_path: Path) -> None:
    strategy = COHESIVE | {"regroup_every": 1}
    runs = [
        learn_together(config_of(path, workers, {"name": "gcn", "hidden": 8}, strategy, epochs=3), tmp_path / str(workers))[0]
        for path, workers in ((graph.path, 1), (parts, 2))
    ]
    assert_same(runs[1], runs[0])
    fixed = learn_together(config_of(graph.path, 1, {"name": "gcn", "hidden": 8}, COHESIVE, epochs=3), tmp_path / "fixed")[0]
    assert fixed.losses[0] == runs[0].losses[0], "the first epochs are alike"
    assert abs(fixed.losses[2] - runs[0].losses[2]) > 1e-6


def test_loads_are_even_and_every_node_is_computed_once(parts: Path) -> None:
    config = config_of(parts, 3, {"name": "gcn", "hidden": 8}, COHESIVE, balance_workers=True)

    def work(team: Team) -> list[tuple[np.ndarray, list[np.ndarray], np.ndarray]]:
        made = set_up(config, team).work
        assert isinstance(made, TeamWork)
        assert isinstance(made.strategy, TeamBalanced)
        assert isinstance(made.whole.filler, BalancedFiller)
        found = []
        for plan in made.strategy.plans(1):
            share = made.strategy._shares[plan.batch]
            rows = [share.graph.position[layer.rows[: layer.outputs]] for layer in plan.layers]
            found.append((share.load, rows, share.graph.position[plan.targets]))
        return found

    everywhere = run_threads(3, work)
    train = []
    for step in zip(*everywhere, strict=True):
        load = step[0][0]
        np.testing.assert_array_equal(load, step[1][0])
        assert load.max() < 1.35 * load.mean(), "owners alone would be at 2"
        for layer in range(2):
            computed = np.concatenate([rows[layer] for _, rows, _ in step])
            assert len(np.unique(computed)) == len(computed)
        train += [position for _, _, targets in step for position in targets.tolist()]
    assert len(train) == len(set(train)) == sum(place % 10 < 6 for place in range(NODES))


def test_pieces_go_to_the_least_loaded_by_hand() -> None:
    costs = np.array([3.0, 1.0, 1.0, 1.0, 2.0])
    assert to_least_loaded(costs, np.array([1, 1, 0, 1, 1]), 2, 0.0).tolist() == [1, 0, 0, 0, 1], "a tie goes to the holder"
    assert to_least_loaded(costs, np.array([1, 1, 0, 1, 1]), 2, 1.5).tolist() == [1, 0, 0, 1, 0]
    assert to_least_loaded(costs, np.zeros(5), 2, 100.0).tolist() == [0] * 5


@given(st.lists(st.floats(0, 10), max_size=60), st.integers(1, 5), st.floats(0, 5), st.integers(0, 9))
def test_loads_differ_by_one_piece_and_the_slack(costs: list[float], workers: int, slack: float, seed: int) -> None:
    holder = np.random.default_rng(seed).integers(0, workers, len(costs))
    given_to = to_least_loaded(np.array(costs), holder, workers, slack)
    load = np.bincount(given_to, np.array(costs), minlength=workers) if costs else np.zeros(workers)
    assert load.max() - load.min() <= slack + max(costs, default=0) + 1e-9


@pytest.mark.parametrize(
    ("strategy", "team", "sentence"),
    [
        ({"name": "mini"}, {"workers": 2}, "got --strategy mini. Pass --strategy cohesive"),
        (COHESIVE | {"regroup_every": 2}, {"workers": 2}, "got regroup_every"),
        (COHESIVE, {"workers": 1}, "is for several workers of --parallel hybrid"),
        (COHESIVE, {"workers": 2, "boundary": 0.5}, "is for several workers of --parallel hybrid"),
    ],
)
def test_what_cannot_be_balanced_is_refused(parts: Path, strategy: dict[str, Any], team: dict[str, Any], sentence: str) -> None:
    workers = team.pop("workers")
    config = config_of(parts, workers, {"name": "gcn"}, strategy, balance_workers=True, **team)
    with pytest.raises(InputError, match=sentence):
        set_up(config, Team())


@pytest.mark.parametrize("balanced", [False, True])
def test_kept_plans_change_no_bit_and_are_asked_for_once(parts: Path, balanced: bool, tmp_path: Path) -> None:
    found = []
    for keep in (0, 1 << 20):
        strategy = {**COHESIVE, "keep": keep}
        config = config_of(parts, 2, {"hidden": 8, **MODELS["gcn"]}, strategy, epochs=3, balance_workers=balanced)
        found.append(learn_together(config, tmp_path / f"{balanced}-{keep}"))
    for anew, kept in zip(*found, strict=True):
        assert_identical(anew, kept)
        assert kept.bytes_sent < anew.bytes_sent, "from the second epoch on nothing is sent for planning"
