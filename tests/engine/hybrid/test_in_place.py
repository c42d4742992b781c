"""Batches with all neighbours, by teams: kernels go over the graph's own lists, and training is that of one process.

The graphs have self-loops, several edges between two nodes, a part without nodes and one of a single node.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.engine.hybrid.computing.view import TeamView
from starling.engine.hybrid.planning import active
from starling.engine.hybrid.planning.mapped_edges import MappedEdges
from starling.kernels.adjacency import HUB_EDGES
from starling.nn.later_graph import LaterGraph
from starling.store.graph import Graph
from starling.train.config import RunConfig
from starling.train.outputs import outputs_of
from starling.train.setup import set_up
from starling.train.work import TeamWork
from tests.engine.hybrid.runs import assert_identical, assert_same, config_of, cut, learn_together, steps, unequal_parts
from tests.engine.hybrid.test_equal import CUTS, settings_of
from tests.engine.hybrid.test_equal import MODELS as EVERY_MODEL
from tests.support.card import a_card_for
from tests.support.ranks import run_ranks
from tests.support.trainable import trainable_graph

MINI = {"name": "mini", "batch_size": 20}
MODELS = tuple(model for model in EVERY_MODEL if model != "mlp")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Four in-edges a node for each of four workers, so that nearly all layers have more edges than a worker has rows."""
    draw = np.random.default_rng(8)
    tables = {
        "time": np.arange(1000, dtype=np.int64) // 2,
        "weight": draw.uniform(0.5, 2, 1000).astype(np.float32),
        "attr": draw.normal(size=(1000, 3)).astype(np.float32),
        "type": draw.integers(0, 3, 1000),
    }
    return trainable_graph(tmp_path_factory.mktemp("graph") / "g", nodes=61, edges=1000, edge_tables=tables, without=("val",))


@pytest.fixture(scope="module")
def cuts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return unequal_parts(graph, tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="module")
def parts(cuts: dict[str, Path]) -> Path:
    return cuts["edge-cut"]


def changed(config: RunConfig, sync: dict[str, Any]) -> RunConfig:
    return RunConfig.from_tables({**config.to_tables(), "sync": sync})


def ways(config: RunConfig) -> list[list[bool]]:
    """For every worker, whether each layer of an epoch that has edges there was read in place."""

    def look(team: Team) -> list[bool]:
        layers = []
        for batch in set_up(config, team).work.batches(1):
            for view in batch.views:
                assert isinstance(view, TeamView)
                assert view.layer is not None
                layers.append(view.layer)
        mapped = [isinstance(layer.edges, MappedEdges) for layer in layers]
        return [through for through, layer in zip(mapped, layers, strict=True) if layer.edges.count]

    return run_threads(config.team.workers, look)


def test_the_graph_has_loops_and_edges_that_are_several(graph: Graph) -> None:
    pairs = graph.edges
    assert (pairs[:, 0] == pairs[:, 1]).any()
    assert len(np.unique(pairs, axis=0)) < len(pairs)


@pytest.mark.parametrize("workers", [2, 4, 5])
@pytest.mark.parametrize(("kind", "model"), [(kind, model) for kind in CUTS for model in MODELS])
def test_teams_read_in_place_and_learn_what_one_process_learns(
    graph: Graph, cuts: dict[str, Path], tmp_path: Path, kind: str, model: str, workers: int
) -> None:
    """Of five workers one has no rows at all."""
    config = config_of(cuts[kind], workers, settings_of(model), MINI)
    assert all(ways(config)[0])  # worker 0 has most of the nodes
    np.testing.assert_allclose(steps(config), steps(config_of(graph.path, 1, settings_of(model), MINI)), rtol=5e-4, atol=2e-5)
    (alone,) = learn_together(config_of(graph.path, 1, settings_of(model), MINI), tmp_path / "alone")
    for seen in learn_together(config, tmp_path / "team"):
        assert_same(seen, alone)


@pytest.mark.parametrize("model", [{"name": "gcn"}, {"name": "sage"}, {"name": "gat"}, {"name": "sage", "aggregate": "max"}])
@pytest.mark.parametrize("kind", CUTS)
def test_hubs(tmp_path: Path, kind: str, model: dict[str, Any]) -> None:
    """Every node has more neighbours, and feeds more, than are summed at once, among own rows as well as among mirrors."""
    graph = trainable_graph(tmp_path / "g", nodes=16, edges=16 * 5 * HUB_EDGES, without=("val",))
    edge_part = None if kind == "edge-cut" else np.random.default_rng(2).integers(0, 2, graph.manifest.edges)
    parts = cut(graph, tmp_path, 2, np.arange(16) // 8, edge_part)
    settings, strategy = {**model, "hidden": 4}, {"name": "mini", "batch_size": 12}
    config = config_of(parts, 2, settings, strategy)
    assert all(all(worker) for worker in ways(config))
    np.testing.assert_allclose(steps(config), steps(config_of(graph.path, 1, settings, strategy)), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("kind", CUTS)
@pytest.mark.parametrize("model", ["sage", "gat", "gcn weighted"])
def test_neither_overlap_nor_batches_in_flight_change_a_bit(
    cuts: dict[str, Path], tmp_path: Path, model: str, kind: str
) -> None:
    """Steps in flight read the lists of one graph at once."""
    parts = cuts[kind]
    stale = {"name": "stale", "staleness": 2}
    (first, *_), *others = (
        learn_together(changed(config_of(parts, 4, settings_of(model), MINI, overlap=overlap), sync), tmp_path / f"{number}")
        for number, (overlap, sync) in enumerate([(True, stale), (False, stale), (True, {**stale, "in_flight": 3})])
    )
    for team in others:
        for seen in team:
            assert_identical(seen, first)


@pytest.mark.parametrize("wire", ["float32", "bfloat16"])
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("model", ["gcn", "gate"])
@pytest.mark.parametrize("kind", CUTS)
def test_copies_give_the_same_gradients(
    cuts: dict[str, Path], monkeypatch: pytest.MonkeyPatch, kind: str, model: str, workers: int, wire: str
) -> None:
    config = config_of(cuts[kind], workers, settings_of(model), MINI, wire=wire)
    in_place = steps(config)
    monkeypatch.setattr(active, "worth_reading_in_place", lambda *_: False)
    assert not any(through for worker in ways(config) for through in worker)
    copied = steps(config)
    # sums in another order may be rounded to another bfloat16, one part in 256 away
    rtol, atol = (2e-4, 2e-6) if wire == "float32" else (2e-2, 2e-4)
    np.testing.assert_allclose(in_place, copied, rtol=rtol, atol=atol)


@pytest.mark.parametrize("kind", CUTS)
@pytest.mark.parametrize("model", [*MODELS, "sage by relation"])
def test_edges_are_not_listed_by_the_way(cuts: dict[str, Path], monkeypatch: pytest.MonkeyPatch, model: str, kind: str) -> None:
    """What a model reads was seen on two nodes without loops: of many, some of which have one, and of pieces it reads no more."""
    settings = {"name": "sage", "hidden": 8, "relational": True} if model == "sage by relation" else settings_of(model)
    config = config_of(cuts[kind], 4, settings, MINI)
    assert all(ways(config)[0])
    monkeypatch.setattr(LaterGraph, "listed", property(lambda graph: pytest.fail("edges were listed")))
    assert len(steps(config))


def test_the_graph_as_it_was(graph: Graph, parts: Path) -> None:
    """Half of the edges are younger."""
    found = []
    for config in (config_of(parts, 2, settings_of("gcn"), MINI), config_of(graph.path, 1, settings_of("gcn"), MINI)):
        then = config.model_copy(update={"data": config.data.model_copy(update={"before": 250})})
        if config.team.workers > 1:
            assert any(through for worker in ways(then) for through in worker)
        found.append(steps(then))
    np.testing.assert_allclose(found[0], found[1], rtol=2e-4, atol=2e-6)


FICKLE = '''
from torch import nn
from starling.nn.gather import Copy
from starling.nn.view import View


class Fickle(nn.Module):
    layer_count = 2

    def __init__(self, features, classes):
        super().__init__()
        self.into, self.out = nn.Linear(features, 8), nn.Linear(8, classes)
        for weight in self.parameters():
            nn.init.constant_(weight, 0.1)

    def forward(self, views, x):
        """Means of two nodes, on which it is tried; of all others it counts the neighbours, too."""
        first, second = (views, views) if isinstance(views, View) else views
        rows = self.into(first.aggregate(Copy(), "mean", x)).relu()
        if len(x) > 2:
            rows = rows * first.graph.neighbours.new_ones(len(first.graph.neighbours)).float().mean()
        return self.out(second.aggregate(Copy(), "mean", rows))
'''


def test_a_model_that_shows_its_habits_late(graph: Graph, parts: Path, tmp_path: Path) -> None:
    """Its layers are not listed when they are planned, so they are when it asks for neighbours."""
    (tmp_path / "fickle.py").write_text(FICKLE)
    model = {"name": f"{tmp_path / 'fickle.py'}:Fickle"}
    config = config_of(parts, 2, model, MINI)
    assert all(ways(config)[0])
    np.testing.assert_allclose(steps(config), steps(config_of(graph.path, 1, model, MINI)), rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize(
    ("model", "layers", "batch_size", "fanouts", "prepared"),
    [
        ("gcn", 2, 20, [3, "all"], {"split"}),
        ("gat", 2, 20, None, {"turned"}),
        ("gcn", 2, 20, [3, 2], set()),  # what was drawn is copied, or found by its entries in the lists as they are
        ("gat", 1, 1, None, set()),  # one target has fewer edges than there are rows
    ],
)
def test_whole_lists_are_prepared_only_where_a_layer_reads_them(
    parts: Path, model: str, layers: int, batch_size: int, fanouts: list[Any] | None, prepared: set[str]
) -> None:
    """A second copy of the worker's edges, by owner of the source or turned round, is made for nobody else."""
    strategy = {**MINI, "batch_size": batch_size, "fanouts": fanouts}
    config = config_of(parts, 2, {**settings_of(model), "layers": layers}, strategy)

    def look(team: Team) -> set[str]:
        setup = set_up(config, team)
        assert isinstance(setup.work, TeamWork)
        batch = next(iter(setup.work.batches(1)))
        loss = outputs_of(setup.model, batch)[batch.outputs].sum()
        loss.backward()
        graph = setup.work.whole.source.graph
        there = {"split": vars(graph.whole_layer.edges)["_split"] is not None, "turned": "transposed" in vars(graph.adjacency)}
        return {name for name, made in there.items() if made}

    assert run_threads(2, look)[0] == prepared


def look_on_cards(team: Team, config: RunConfig) -> list[bool]:
    with a_card_for(team) as carded:
        work = set_up(config.model_copy(update={"run": config.run.model_copy(update={"device": "cuda"})}), carded).work
        assert isinstance(work, TeamWork)
        return [isinstance(layer.edges, MappedEdges) for plan in work.strategy.plans(1) for layer in plan.layers]


def test_cards_are_given_copied_lists(parts: Path) -> None:
    """Kernels cannot read rows there: lists that nobody has made yet would have to be made while it trains."""
    for seen in run_ranks(2, look_on_cards, config_of(parts, 2, settings_of("gcn"), MINI)):
        assert seen
        assert not any(seen)
