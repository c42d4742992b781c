"""Invariant 1: a team of workers learns what one process learns, for every strategy, model and cut.

Every model meets every strategy on both cuts at every size of team. What needs whole neighbour lists, as an LSTM and fan-outs do,
has those of a vertex-cut put together first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.nn import registry
from starling.store.graph import Graph
from starling.train.config import RunConfig
from tests.engine.hybrid.runs import Learnt, assert_same, config_of, learn_together

MODELS: dict[str, dict[str, Any]] = {
    "gcn": {"norm": "batch", "dropout": 0.3, "residual": True},
    "gcn weighted": {"edge_weights": True, "input_dropout": 0.2},
    "gcn by relation": {"relational": True, "dropout": 0.2},
    "gcn weighted by relation": {"relational": True, "edge_weights": True},
    "sage": {"jump": "cat", "dropout": 0.2},
    "sage max": {"aggregate": "max", "norm": "layer"},
    "gat": {"heads": 2, "attention_dropout": 0.3},
    "gatv2": {"heads": 2, "attention_dropout": 0.3},
    "gate": {"heads": 2},
    "rgcn": {"bases": 2},
    "rgat": {"heads": 2, "attention_dropout": 0.3},
    "rgat within": {"heads": 2, "softmax": "within"},
    "gin": {"inner": 1, "norm": "batch"},
    "sgc": {},
    "mlp": {"norm": "batch"},
    "sage lstm": {"aggregate": "lstm"},
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "global": {"name": "global"},
    "mini": {"name": "mini", "batch_size": 20},
    "sampled": {"name": "mini", "batch_size": 20, "fanouts": [3, 2]},
    "cluster": {"name": "cluster", "clusters": 5, "clusters_per_step": 2},
    "cluster with a hop": {"name": "cluster", "clusters": 5, "clusters_per_step": 2, "boundary_hops": 1},
}
CUTS, SIZES = ("edge-cut", "vertex-cut"), (1, 2, 4)

CASES = [(model, strategy, kind, size) for model in MODELS for strategy in STRATEGIES for kind in CUTS for size in SIZES]


def settings_of(model: str) -> dict[str, Any]:
    name = model.split()[0]
    return {"name": name, **({} if name == "sgc" else {"hidden": 8}), **MODELS[model]}


@pytest.fixture(scope="module")
def alone(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Learnt]:
    """What one process learns, once for each model and strategy."""

    @cache
    def learnt(model: str, strategy: str) -> Learnt:
        config = config_of(graph.path, 1, settings_of(model), STRATEGIES[strategy])
        return learn_together(config, tmp_path_factory.mktemp("alone") / "run")[0]

    return learnt


@pytest.mark.parametrize(("model", "strategy", "kind", "workers"), CASES)
def test_teams_learn_what_one_process_learns(
    alone: Callable[[str, str], Learnt],
    parts: dict[str, Path],
    tmp_path: Path,
    model: str,
    strategy: str,
    kind: str,
    workers: int,
) -> None:
    expected = alone(model, strategy)
    for seen in learn_together(config_of(parts[kind], workers, settings_of(model), STRATEGIES[strategy]), tmp_path / "team"):
        assert_same(seen, expected)
        assert seen.test == pytest.approx(expected.test, abs=1.5 / 12)  # of 12 test nodes one may be a near tie


@pytest.mark.parametrize(
    ("kind", "strategy", "workers"), [(*CUTS[:1], "global", 4), (*CUTS[:1], "sampled", 2), (*CUTS[1:], "mini", 4)]
)
def test_convolutions_of_pyg_are_computed_by_teams(
    graph: Graph, parts: dict[str, Path], tmp_path: Path, kind: str, strategy: str, workers: int
) -> None:
    pytest.importorskip("torch_geometric")
    model, how = {"name": "pyg:SAGEConv", "hidden": 8}, STRATEGIES[strategy]
    (alone,) = learn_together(config_of(graph.path, 1, model, how), tmp_path / "alone")
    for seen in learn_together(config_of(parts[kind], workers, model, how), tmp_path / "team"):
        assert_same(seen, alone)


BEFORE_BATCH_NORM: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("gcn", "sage", "gin", "rgcn", "mlp")},
    **{name: {"heads": 2} for name in ("gat", "gatv2", "gate", "rgat")},
    "gcn by relation": {"relational": True},
    "sage and networks": {"inner": 1, "residual": True, "jump": "cat"},
    "pyg:GATConv": {},
}


@pytest.mark.parametrize("model", BEFORE_BATCH_NORM)
def test_adam_makes_no_steps_of_rounding_before_a_batch_norm(
    graph: Graph, parts: dict[str, Path], tmp_path: Path, model: str
) -> None:
    """A batch norm takes away what a layer adds to all rows alike: the gradient of that is rounding, which Adam would scale up."""
    if model.startswith("pyg"):
        pytest.importorskip("torch_geometric")
    settings = {"name": model.split()[0], "hidden": 8, "layers": 3, "norm": "batch", **BEFORE_BATCH_NORM[model]}

    def by(path: Path, workers: int) -> Learnt:
        tables = config_of(path, workers, settings, epochs=6).to_tables()
        config = RunConfig.from_tables({**tables, "optimizer": {"name": "adam", "lr": 0.02}})
        return learn_together(config, tmp_path / f"{workers}")[0]

    alone, team = by(graph.path, 1), by(parts["edge-cut"], 4)
    np.testing.assert_allclose(team.losses, alone.losses, rtol=1e-5)
    for name, weight in alone.weights.items():
        np.testing.assert_allclose(team.weights[name], weight, rtol=1e-4, atol=2e-5, err_msg=name)
    assert team.test == pytest.approx(alone.test)


def test_no_model_is_left_out() -> None:
    assert {model.split()[0] for model in MODELS} == set(registry.MODELS)
    assert len(CASES) == 16 * 5 * 2 * 3  # models, strategies, cuts, sizes
