"""Invariant 1: a team of workers learns what one process learns, for every strategy, model and cut.

Every model meets every strategy once; cuts and sizes of teams take turns, so that every model meets both cuts (an LSTM, which needs
whole neighbour lists, the edge-cut) and every strategy meets both cuts at both sizes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.store.graph import Graph
from tests.engine.hybrid.runs import assert_same, config_of, cut, learn_together, small_graph

NODES, PARTS = 61, 5

MODELS: dict[str, dict[str, Any]] = {
    "gcn": {"norm": "batch", "dropout": 0.3, "residual": True},
    "gcn weighted": {"edge_weights": True, "input_dropout": 0.2},
    "sage": {"jump": "cat", "dropout": 0.2},
    "sage max": {"aggregate": "max", "norm": "layer"},
    "gat": {"heads": 2, "attention_dropout": 0.3},
    "gatv2": {"heads": 2, "attention_dropout": 0.3},
    "gate": {"heads": 2},
    "rgcn": {"bases": 2},
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
CASES = [
    (
        model,
        strategy,
        # fan-outs and LSTMs need whole neighbour lists
        "edge-cut" if strategy == "sampled" or model == "sage lstm" or (m + s) % 2 else "vertex-cut",
        4 if (m + s) // 2 % 2 else 2,
    )
    for m, model in enumerate(MODELS)
    for s, strategy in enumerate(STRATEGIES)
]


def settings_of(model: str) -> dict[str, Any]:
    name = model.split()[0]
    return {"name": name, **({} if name == "sgc" else {"hidden": 8}), **MODELS[model]}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return small_graph(tmp_path_factory.mktemp("graph") / "g", nodes=NODES)


@pytest.fixture(scope="module")
def parts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Five unequal parts: one empty, one of a single node; as an edge-cut and as a vertex-cut."""
    draw = np.random.default_rng(5)
    owner = draw.choice([0, 2, 4], NODES, p=[0.6, 0.2, 0.2])
    owner[7] = 3
    edge_part = draw.choice([0, 2, 3, 4], graph.manifest.edges)
    folder = tmp_path_factory.mktemp("parts")
    return {
        "edge-cut": cut(graph, folder / "edge", PARTS, owner),
        "vertex-cut": cut(graph, folder / "vertex", PARTS, owner, edge_part),
    }


@pytest.mark.parametrize(("model", "strategy", "kind", "workers"), CASES)
def test_teams_learn_what_one_process_learns(
    graph: Graph, parts: dict[str, Path], tmp_path: Path, model: str, strategy: str, kind: str, workers: int
) -> None:
    how = STRATEGIES[strategy]
    (alone,) = learn_together(config_of(graph.path, 1, settings_of(model), how), tmp_path / "alone")
    for seen in learn_together(config_of(parts[kind], workers, settings_of(model), how), tmp_path / "team"):
        assert_same(seen, alone)
        assert seen.test == pytest.approx(alone.test, abs=1.5 / 12)  # of 12 test nodes one may be a near tie


@pytest.mark.parametrize(("strategy", "workers"), [("global", 4), ("sampled", 2)])
def test_convolutions_of_pyg_are_computed_by_teams(
    graph: Graph, parts: dict[str, Path], tmp_path: Path, strategy: str, workers: int
) -> None:
    pytest.importorskip("torch_geometric")
    model, how = {"name": "pyg:SAGEConv", "hidden": 8}, STRATEGIES[strategy]
    (alone,) = learn_together(config_of(graph.path, 1, model, how), tmp_path / "alone")
    for seen in learn_together(config_of(parts["edge-cut"], workers, model, how), tmp_path / "team"):
        assert_same(seen, alone)


def test_an_lstm_over_a_vertex_cut_is_refused(parts: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"An LSTM reads all neighbours of a node in order, and .* is a vertex-cut"):
        learn_together(config_of(parts["vertex-cut"], 2, settings_of("sage lstm")), tmp_path / "team")
    assert not (tmp_path / "team").exists()


def test_the_turns_meet_everything() -> None:
    met_cuts = {(model, kind) for model, _, kind, _ in CASES}
    assert met_cuts == {(m, k) for m in MODELS for k in ("edge-cut", "vertex-cut")} - {("sage lstm", "vertex-cut")}
    met = {(strategy, kind, workers) for _, strategy, kind, workers in CASES if strategy != "sampled"}
    assert len(met) == (len(STRATEGIES) - 1) * 4
