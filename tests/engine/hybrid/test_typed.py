"""Types, times and edge tables under every strategy and cut: a team learns what one process learns, every edge has its values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.nn.graph import LocalGraph
from starling.store.graph import Graph, create_graph
from starling.stream.bridges.typed import EdgeSet, NodeSet, typed_graph
from starling.train.config import RunConfig
from starling.train.prediction import PredictRequest, predict
from starling.train.setup import set_up
from starling.train.trainer import fit
from tests.engine.hybrid.runs import assert_same, config_of, cut, learn_together

AUTHORS, PAPERS, VENUES = 14, 25, 6
NODES = AUTHORS + PAPERS + VENUES
SETS = {"author": (0, AUTHORS), "paper": (AUTHORS, PAPERS), "venue": (AUTHORS + PAPERS, VENUES)}
RELATIONS = (("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "in", "venue"), ("venue", "has", "paper"))


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Authors with 3 features, papers with 5, venues with none."""
    return build(tmp_path_factory.mktemp("typed") / "graph", author=3)


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """All types with 5 features, so that there is one table of them."""
    return build(tmp_path_factory.mktemp("alike") / "graph", author=5, venue=5)


def build(path: Path, **widths: int) -> Graph:
    """An edge's attributes tell its ends, its weight their sum, its time the first of them."""
    draw = np.random.default_rng(2)
    place = np.arange(PAPERS) % 10
    papers = {
        "x": draw.normal(size=(PAPERS, 5)).astype(np.float32),
        "y": draw.integers(0, 3, PAPERS),
        "train": place < 6,
        "test": place >= 6,
    }
    others = {name: {"x": draw.normal(size=(SETS[name][1], width)).astype(np.float32)} for name, width in widths.items()}
    nodes = [
        NodeSet("author", AUTHORS, others["author"]),
        NodeSet("paper", PAPERS, papers),
        NodeSet("venue", VENUES, others.get("venue", {})),
    ]
    edges = []
    for source, name, destination in RELATIONS:
        (first, sources), (second, destinations) = SETS[source], SETS[destination]
        ends = draw.integers(0, sources, 40), draw.integers(0, destinations, 40)
        u, v = ends[0] + first, ends[1] + second
        columns = {"attr": np.stack([u, v], 1).astype(np.float32) / 100, "weight": (u + v).astype(np.float32), "time": u % 7}
        edges.append(EdgeSet((source, name, destination), *ends, columns))
    return create_graph(typed_graph(nodes, edges, {}), path)


@pytest.fixture(scope="module")
def parts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return cuts(graph, tmp_path_factory.mktemp("typed-parts"))


@pytest.fixture(scope="module")
def alike_parts(alike: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return cuts(alike, tmp_path_factory.mktemp("alike-parts"))


def cuts(graph: Graph, folder: Path) -> dict[str, Path]:
    draw = np.random.default_rng(5)
    owner = draw.choice([0, 1, 3], NODES)
    return {
        "edge-cut": cut(graph, folder / "edge", 4, owner),
        "vertex-cut": cut(graph, folder / "vertex", 4, owner, draw.integers(0, 4, graph.manifest.edges)),
    }


MINI = {"name": "mini", "batch_size": 6}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "rgat, all neighbours": ({"name": "rgat", "heads": 2, "attention_dropout": 0.2}, MINI, "vertex-cut"),
    "rgat, by relation": ({"name": "rgat", "heads": 2}, MINI | {"fanouts": "writes:2,1;cites:all,0;*:1,2"}, "edge-cut"),
    "gate by relation": ({"name": "gate", "heads": 2, "relational": True, "dropout": 0.2}, {"name": "global"}, "edge-cut"),
    "weighted sage by relation": ({"name": "sage", "edge_weights": True, "relational": True}, MINI, "vertex-cut"),
    "weighted sage": ({"name": "sage", "edge_weights": True, "input_dropout": 0.3}, MINI | {"fanouts": [2, 2]}, "edge-cut"),
    "rgcn on clusters": ({"name": "rgcn"}, {"name": "cluster", "clusters": 4, "clusters_per_step": 2}, "edge-cut"),
}


def typed(path: Path, workers: int, case: str, **changed: Any) -> RunConfig:
    model, strategy, *_ = CASES[case]
    config = config_of(path, workers, {"hidden": 8, **model}, strategy)
    tables = config.to_tables()
    tables["embedding"]["dim"] = 4
    for name, table in changed.items():
        tables[name].update(table)
    return RunConfig.from_tables(tables)


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("case", CASES)
def test_teams_learn_what_one_process_learns(
    graph: Graph, parts: dict[str, Path], tmp_path: Path, case: str, workers: int
) -> None:
    """With inputs by type and embeddings of venues, which have no features."""
    _, _, kind = CASES[case]
    (alone,) = learn_together(typed(graph.path, 1, case), tmp_path / "alone")
    for seen in learn_together(typed(parts[kind], workers, case), tmp_path / "team"):
        assert_same(seen, alone)
    assert alone.losses[1] < alone.losses[0]


@pytest.mark.parametrize("kind", ["edge-cut", "vertex-cut"])
def test_a_team_sees_the_graph_as_it_was(graph: Graph, parts: dict[str, Path], tmp_path: Path, kind: str) -> None:
    """Edges after time 3 are left out, of degrees and evaluation too: the losses are others than with all edges."""
    case, then = "gate by relation", {"data": {"before": 3}}
    (alone,) = learn_together(typed(graph.path, 1, case, **then), tmp_path / "alone")
    (later,) = learn_together(typed(graph.path, 1, case), tmp_path / "later")
    assert abs(alone.losses[0] - later.losses[0]) > 1e-4
    for seen in learn_together(typed(parts[kind], 2, case, **then), tmp_path / "team"):
        assert_same(seen, alone)


def check_tables(graph: LocalGraph, latest: int | None = None) -> int:
    """Every edge's attributes, weight and type are those its ends had on import; returns how many edges there are."""
    position = graph.row_position
    u, v = position[graph.neighbours.long()], position[graph.edge_destination]
    if graph.edge_attr is not None:
        torch.testing.assert_close(graph.edge_attr, torch.stack([u, v], 1).float() / 100)
    if graph.edge_weight is not None:
        torch.testing.assert_close(graph.edge_weight, (u + v).float())
    if graph.edge_type is not None:
        bounds = torch.tensor([AUTHORS, AUTHORS + PAPERS])
        ends = torch.stack([torch.bucketize(u, bounds, right=True), torch.bucketize(v, bounds, right=True)], 1).tolist()
        known = {(0, 1): 0, (1, 1): 1, (1, 2): 2, (2, 1): 3}
        assert graph.edge_type.tolist() == [known[source, destination] for source, destination in ends]
    if latest is not None:
        assert ((u % 7) <= latest).all()
    return graph.edges


STRATEGIES: dict[str, dict[str, Any]] = {
    "global": {"name": "global"},
    "mini": MINI,
    "by relation": MINI | {"fanouts": "*:2,1"},
    "cluster": {"name": "cluster", "clusters": 4, "boundary_hops": 1},
    "saint": {"name": "saint", "count": 20, "coverage": 2},
}
PLACES = [
    *((strategy, "one process") for strategy in STRATEGIES),
    *((strategy, "edge-cut") for strategy in STRATEGIES if strategy != "saint"),
    *((strategy, "vertex-cut") for strategy in STRATEGIES if strategy != "saint"),
    ("mini", "data"),
]
"""Where each strategy can run: with several workers saint is refused."""


@pytest.mark.parametrize(("strategy", "where"), PLACES)
def test_edge_tables_follow_their_edges(alike: Graph, alike_parts: dict[str, Path], strategy: str, where: str) -> None:
    """Attributes and types with one model, weights with another, through every strategy that there is for the place."""
    path, workers = (alike.path, 1) if where == "one process" else (alike_parts.get(where, alike_parts["edge-cut"]), 2)
    team = {"parallel": "data"} if where == "data" else {}

    def look(team: Team, config: RunConfig) -> int:
        return sum(check_tables(view.graph) for batch in set_up(config, team).work.batches(1) for view in batch.views)

    for model in ({"name": "gate", "heads": 2, "relational": True}, {"name": "sage", "edge_weights": True}):
        config = config_of(path, workers, {"hidden": 8, **model}, STRATEGIES[strategy], **team)
        assert sum(run_threads(workers, lambda team, config=config: look(team, config))) > 0


def test_combinations_that_make_no_sense(graph: Graph, parts: dict[str, Path], tmp_path: Path) -> None:
    def refused(path: Path, workers: int, case: str, words: str, **changed: Any) -> None:
        with pytest.raises(InputError, match=words):
            learn_together(typed(path, workers, case, **changed), tmp_path / "run")

    refused(parts["edge-cut"], 2, "rgat, all neighbours", "another past for every target", strategy={"past": True})
    refused(graph.path, 1, "weighted sage", "got past. Leave edge_weights", strategy={"past": True, "fanouts": None})
    refused(graph.path, 1, "rgat, by relation", "no relation 'write'", strategy={"fanouts": "write:1,1;*:1,1"})


def test_a_trained_run_predicts_by_type(graph: Graph, tmp_path: Path) -> None:
    """Inference reads embeddings of venues from the run and gives the scores of training."""
    result = fit(typed(graph.path, 1, "rgat, all neighbours"), tmp_path / "run")
    found = predict(PredictRequest(tmp_path / "run", tmp_path / "out.csv"))
    assert found.scores.test == result.scores.test
    assert len((tmp_path / "out.csv").read_text().splitlines()) == NODES + 1


def test_a_relation_without_edges_is_refused(tmp_path: Path) -> None:
    place = np.arange(6)
    columns = {"x": np.eye(6, dtype=np.float32), "y": place % 2, "train": place < 3, "test": place >= 3}
    nobody = np.empty(0, np.int64)
    edges = [EdgeSet(("a", "to", "a"), place, place[::-1].copy(), {}), EdgeSet(("a", "never", "a"), nobody, nobody, {})]
    graph = create_graph(typed_graph([NodeSet("a", 6, columns)], edges, {}), tmp_path / "graph")
    with pytest.raises(InputError, match="got none of 'a__never__a'"):
        learn_together(config_of(graph.path, 1, {"name": "rgcn", "hidden": 4}), tmp_path / "run")
    (fine,) = learn_together(config_of(graph.path, 1, {"name": "sage", "hidden": 4, "by_type": True}), tmp_path / "sage")
    assert np.isfinite(fine.losses).all()
