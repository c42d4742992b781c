"""Invariant 2: boundary sampling is exact at 1, isolates parts at 0, and between is unbiased and the same for any workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.core.keyed import draw_unit, stream_key
from starling.engine.hybrid.planning.boundary import Boundary
from starling.engine.hybrid.planning.chances import chances_of
from starling.engine.hybrid.share.worker_graph import open_worker_graph
from starling.kernels.sampling import Taken, take_all
from starling.nn.gather import Copy
from starling.store.graph import Graph
from starling.store.parts import open_parts
from starling.train.setup import set_up
from starling.train.work import TeamWork
from tests.engine.hybrid.runs import assert_same, config_of, cut, learn_together, small_graph, steps
from tests.support.trainable import trainable_graph

NODES, PARTS = 40, 4
GIN: dict[str, Any] = {"name": "gin", "hidden": 6, "inner": 1, "norm": "batch"}
GAT: dict[str, Any] = {"name": "gat", "hidden": 6, "heads": 2}
GCN: dict[str, Any] = {"name": "gcn", "hidden": 6, "norm": "batch", "dropout": 0.3}
SAGE: dict[str, Any] = {"name": "sage", "hidden": 6}
MAX: dict[str, Any] = {"name": "sage", "hidden": 6, "aggregate": "max"}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return small_graph(tmp_path_factory.mktemp("graph") / "g", nodes=NODES)


@pytest.fixture(scope="module")
def parts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cut(graph, tmp_path_factory.mktemp("cut"), PARTS, owners())


def owners() -> np.ndarray:
    return np.random.default_rng(6).integers(0, PARTS, NODES)


@pytest.mark.parametrize("workers", [2, 4])
def test_one_is_every_edge_and_almost_one_is_almost_that(graph: Graph, parts: Path, workers: int) -> None:
    """Drawn with a chance of 1 − 10⁻⁷ no edge of this graph is left out: the path of p < 1 gives the numbers of p = 1."""
    whole = open_worker_graph(open_parts(parts), 0, 1)
    taken = take_all(whole.incoming, np.arange(NODES))
    assert Boundary(whole, 1.0, 0).thin(taken, np.arange(NODES), 1) is taken
    for model in (GCN, GAT):
        exact = steps(config_of(graph.path, 1, model))
        np.testing.assert_allclose(steps(config_of(parts, workers, model, boundary=1.0)), exact, rtol=2e-4, atol=2e-6)
        almost = steps(config_of(parts, workers, model, boundary=1 - 1e-7, reuse=False))
        np.testing.assert_allclose(almost, exact, rtol=2e-4, atol=2e-6)


CASES: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    (GCN, {"name": "global"}, True),
    (GCN, {"name": "mini", "batch_size": 10}, True),
    (GAT, {"name": "global"}, True),
    (GIN, {"name": "global"}, False),
    (MAX, {"name": "cluster", "clusters": 4, "clusters_per_step": 2}, True),
    (GIN, {"name": "mini", "batch_size": 10, "fanouts": [2, 2]}, True),
]


@pytest.mark.parametrize(
    ("model", "strategy", "reuse", "choice"),
    [*((*case, "even") for case in CASES), *((*case, "weighted") for case in CASES[:3])],
)
def test_the_number_of_workers_changes_nothing(
    parts: Path, tmp_path: Path, model: dict[str, Any], strategy: dict[str, Any], reuse: bool, choice: str
) -> None:
    team = {"boundary": 0.5, "boundary_choice": choice, "reuse": reuse}
    alone, *teams = (
        learn_together(config_of(parts, workers, model, strategy, **team), tmp_path / f"{workers}") for workers in (1, 2, 4)
    )
    for team in teams:
        for seen in team:
            assert_same(seen, alone[0])
    exact = learn_together(config_of(parts, 2, model, strategy), tmp_path / "exact")[0]
    assert np.abs(exact.losses - alone[0].losses).max() > 1e-3


@pytest.mark.parametrize(("model", "reuse"), [(GIN, False), (GIN, True), (GAT, True), (MAX, True)])
def test_zero_isolates_parts(graph: Graph, parts: Path, tmp_path: Path, model: dict[str, Any], reuse: bool) -> None:
    """The twin is a graph without the edges between parts; the models here know no degrees, which are the whole graph's."""
    pairs, owner = np.load(graph.path / "edges.npy"), owners()
    inside = owner[pairs[:, 0]] == owner[pairs[:, 1]]
    twin = trainable_graph(
        tmp_path / "twin", nodes=NODES, edges=2, without=("val",), **{n: np.asarray(graph.node_table(n)) for n in ("x", "y")}
    )
    np.save(twin.path / "edges.npy", pairs[inside])
    counts = twin.manifest.counts.model_copy(update={"read": int(inside.sum())})
    twin.manifest.model_copy(update={"edges": int(inside.sum()), "counts": counts}).seal(twin.path)
    found = learn_together(config_of(parts, 2, model, boundary=0.0, reuse=reuse), tmp_path / "found")[0]
    (expected,) = learn_together(config_of(twin.path, 1, model), tmp_path / "expected")
    assert_same(found, expected)


def test_each_part_draws_for_each_neighbour(parts: Path) -> None:
    """Slow twin: an edge between parts stays if its part draws below p for its source, scaled by 1 / p and what it had."""
    graph, probability, epoch = open_worker_graph(open_parts(parts), 1, 2), 0.4, 7
    rows = np.arange(graph.owned)[::-1].copy()
    taken = take_all(graph.incoming, rows)
    given = np.linspace(1, 2, len(taken.entry)).astype(np.float32)
    taken = Taken(taken.offsets, taken.neighbours, taken.entry, None, given)
    found = Boundary(graph, probability, 11).thin(taken, rows, epoch)
    entries, scales, lengths = [], [], []
    for i, row in enumerate(rows):
        before = len(entries)
        for k in range(taken.offsets[i], taken.offsets[i + 1]):
            source, here = taken.neighbours[k], graph.part[row]
            key = stream_key(11, f"boundary/{here}", epoch)
            inside = graph.part[source] == here
            if inside or draw_unit(key, int(graph.position[source]), 0) < probability:
                entries.append(int(taken.entry[k]))
                scales.append(given[k] * (1 if inside else 1 / probability))
        lengths.append(len(entries) - before)
    assert 0 < len(entries) < len(taken.entry)
    assert found.entry.tolist() == entries
    assert np.diff(found.offsets).tolist() == lengths
    assert found.edge_scale is not None
    np.testing.assert_allclose(found.edge_scale, scales, rtol=1e-6)


@pytest.mark.parametrize(("reduce", "choice"), [("sum", "even"), ("mean", "even"), ("sum", "weighted"), ("mean", "weighted")])
def test_unbiased(graph: Graph, parts: Path, reduce: Any, choice: str) -> None:
    """The mean over many epochs of what a layer sums comes as near to the exact sum as its variance lets it, and no nearer.

    A node u with m edges to v is left out with all of them: it adds (m x_u)² (1 − p) / p to the variance.
    """
    probability, epochs = 0.3, 400
    setup = set_up(config_of(parts, 1, GCN, boundary=probability, boundary_choice=choice, reuse=False), Team())
    work = setup.work
    assert isinstance(work, TeamWork)
    x, position = work.whole.source.x[:, :2].contiguous(), work.whole.source.graph.position
    drawn = np.stack(
        [
            work.whole.filler.fill(work.strategy.plan(epoch, 0)).views[0].aggregate(Copy(), reduce, x).double().numpy()
            for epoch in range(1, epochs + 1)
        ]
    )
    pairs, owner, values = np.load(graph.path / "edges.npy"), owners(), np.asarray(graph.node_table("x"), np.float64)[:, :2]
    edges = np.zeros((NODES, NODES))
    np.add.at(edges, (pairs[:, 1], pairs[:, 0]), 1)
    chance = np.full((NODES, NODES), probability) if choice == "even" else chances_by_bisection(edges, owner, probability)
    degree = np.maximum(edges.sum(1, keepdims=True), 1) if reduce == "mean" else 1.0
    exact = (edges @ values) / degree
    apart = owner[:, None] != owner
    variance = (np.where(apart, edges**2 * (1 - chance) / chance, 0) @ values**2) / degree**2
    error = np.sqrt(variance / epochs)
    assert (np.abs(drawn.mean(0) - exact[position]) <= 4.5 * error[position] + 1e-5).all()
    spread = drawn.var(0).sum() / variance.sum()
    assert 0.85 < spread < 1.15


def chances_by_bisection(edges: np.ndarray, owner: np.ndarray, share: float) -> np.ndarray:
    """Slow twin: [destination, source] by what chance the destination's part hears of the source."""
    degree, chance = np.maximum(edges.sum(1), 1), np.ones((NODES, NODES))
    for part in range(PARTS):
        mine = owner == part
        weight = np.sqrt((edges[mine] / degree[mine, None] ** 2).sum(0)) * ~mine
        near = weight > 0
        low, high = 0.0, 1e6
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if np.minimum(1, middle * weight).sum() < share * near.sum() else (low, middle)
        chance[np.ix_(mine, near)] = np.minimum(1, low * weight[near])
    return chance


def test_chances_are_proportional_to_weights_and_at_most_one() -> None:
    """By hand: of three neighbours one and a half are to be heard of; the heaviest is capped at 1 and leaves half a one to two."""
    assert chances_of(np.array([1.0, 2.0, 1.0]), 0.5).tolist() == [0.375, 0.75, 0.375]
    assert chances_of(np.array([1.0, 1.0, 8.0]), 0.5).tolist() == [0.25, 0.25, 1.0]
    assert chances_of(np.array([3.0]), 0.25).tolist() == [0.25]
    assert chances_of(np.empty(0), 0.25).tolist() == []


def test_a_weighted_choice_hears_of_as_many_and_varies_less(parts: Path) -> None:
    """Means over neighbours of rows of one norm vary less; a part hears of as many neighbours on average."""

    def work(team: Team, choice: str) -> tuple[int, float]:
        mine = set_up(config_of(parts, 4, GCN, boundary=0.3, boundary_choice=choice, reuse=False), team).work
        assert isinstance(mine, TeamWork)
        heard, drawn = 0, []
        for epoch in range(1, 101):
            plan = mine.strategy.plan(epoch, 0)
            heard += plan.layers[0].traffic.mirrors
            ones = torch.ones(plan.layers[0].traffic.owned, 1)
            drawn.append(mine.whole.filler.fill(plan).views[0].aggregate(Copy(), "mean", ones).double().numpy())
        return heard, float(np.stack(drawn).var(0).sum())

    (heard, variance), (heard_by_weight, less) = (
        np.sum(run_threads(4, lambda team, choice=choice: work(team, choice)), axis=0) for choice in ("even", "weighted")
    )
    assert heard_by_weight == pytest.approx(heard, rel=0.05)
    assert less < 0.9 * variance


@pytest.mark.parametrize("choice", ["even", "weighted"])
def test_ratio_means_divide_by_what_was_heard_of(graph: Graph, parts: Path, choice: str) -> None:
    """Slow twin: an edge that stays counts 1 / its chance, in the sum and in what the sum is divided by; so too in batches."""
    probability, epoch = 0.4, 3
    pairs, owner, values = np.load(graph.path / "edges.npy"), owners(), np.asarray(graph.node_table("x"), np.float64)
    edges = np.zeros((NODES, NODES))
    np.add.at(edges, (pairs[:, 1], pairs[:, 0]), 1)
    chance = np.full((NODES, NODES), probability) if choice == "even" else chances_by_bisection(edges, owner, probability)
    config = config_of(parts, 1, SAGE, boundary=probability, boundary_choice=choice, boundary_mean="ratio", reuse=False)
    keys = [stream_key(config.run.seed, f"boundary/{part}", epoch) for part in range(PARTS)]
    counts = np.zeros((NODES, NODES))
    for to, source in np.argwhere(edges):
        if owner[to] == owner[source]:
            counts[to, source] = edges[to, source]
        elif draw_unit(keys[owner[to]], int(source), 0) < chance[to, source]:
            counts[to, source] = edges[to, source] / chance[to, source]
    total = counts.sum(1, keepdims=True)
    expected = counts @ values / np.where(total, total, 1)
    assert (np.abs(total[:, 0] - edges.sum(1)) > 0.5).any()
    for strategy in ({"name": "global"}, {"name": "mini", "batch_size": 7}):
        work = set_up(config.model_copy(update={"strategy": config_of(parts, 1, SAGE, strategy).strategy}), Team()).work
        assert isinstance(work, TeamWork)
        for step in range(work.strategy.steps_per_epoch):
            plan = work.strategy.plan(epoch, step)
            view, layer = work.whole.filler.fill(plan).views[-1], plan.layers[-1]
            position = work.whole.source.graph.position[layer.rows]
            rows = torch.from_numpy(values[position[: layer.traffic.owned]].astype(np.float32))
            found = view.aggregate(Copy(), "mean", rows).numpy()
            np.testing.assert_allclose(found, expected[position[: layer.outputs]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "strategy",
    [
        {"name": "global"},
        {"name": "mini", "batch_size": 10, "fanouts": [4, 4]},
        {"name": "cluster", "clusters": 2, "clusters_per_step": 1},
    ],
)
def test_ratio_means_of_weighted_edges(tmp_path: Path, strategy: dict[str, Any]) -> None:
    """A weighted mean of rows that are all alike is that row, whatever was left out, or not sampled."""
    weight = np.random.default_rng(1).uniform(0.5, 2, 200).astype(np.float32)
    graph = trainable_graph(tmp_path / "g", nodes=NODES, edges=200, edge_tables={"weight": weight})
    model = {**SAGE, "edge_weights": True}
    found = {}
    for mean in ("unbiased", "ratio"):
        config = config_of(
            cut(graph, tmp_path / mean, PARTS, owners()), 1, model, strategy, boundary=0.4, boundary_mean=mean, reuse=False
        )
        work = set_up(config, Team()).work
        assert isinstance(work, TeamWork)
        view = work.whole.filler.fill(work.strategy.plan(1, 0)).views[0]
        gather = Copy(view.graph.edge_weight, row_scale=view.graph.weighted_mean_scale)
        assert view.layer is not None
        found[mean] = view.aggregate(gather, "sum", torch.ones(view.layer.traffic.owned, 1)).numpy()
        empty = view.graph.local_degree.numpy() == 0
        assert (found[mean][empty] == 0).all()
    np.testing.assert_allclose(found["ratio"][~empty], 1, rtol=1e-5)
    assert np.abs(found["unbiased"] - 1).max() > 0.2


@pytest.mark.parametrize(
    ("strategy", "choice"), [({"name": "global"}, "even"), ({"name": "mini", "batch_size": 10, "fanouts": [2, 2]}, "weighted")]
)
def test_the_number_of_workers_changes_no_ratio(parts: Path, tmp_path: Path, strategy: dict[str, Any], choice: str) -> None:
    ways = {"boundary": 0.3, "boundary_choice": choice}
    alone, *teams = (
        learn_together(config_of(parts, workers, SAGE, strategy, **ways, boundary_mean="ratio"), tmp_path / f"{workers}")
        for workers in (1, 2, 4)
    )
    for team in teams:
        for seen in team:
            assert_same(seen, alone[0])
    unbiased = learn_together(config_of(parts, 2, SAGE, strategy, **ways), tmp_path / "unbiased")[0]
    assert np.abs(unbiased.losses - alone[0].losses).max() > 1e-3


@pytest.mark.parametrize("option", [{"boundary_choice": "weighted"}, {"boundary_mean": "ratio"}])
def test_a_choice_without_anything_to_choose_is_refused(parts: Path, option: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"1 leaves out none. Pass another --boundary, or leave out team.{next(iter(option))}"):
        config_of(parts, 2, SAGE, **option)


def test_a_choice_of_none_is_refused(parts: Path) -> None:
    with pytest.raises(InputError, match="0 leaves out all"):
        config_of(parts, 2, SAGE, boundary=0, boundary_choice="weighted")


@pytest.mark.parametrize("model", [GCN, GIN, GAT, MAX])
def test_a_ratio_without_means_is_refused(parts: Path, model: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="this model takes none"):
        set_up(config_of(parts, 1, model, boundary=0.5, boundary_mean="ratio"), Team())


def test_a_ratio_of_means_that_are_kept_is_refused(parts: Path) -> None:
    """The first layer's are made once, over all neighbours, and there is no other."""
    one_layer = {**SAGE, "layers": 1}
    with pytest.raises(InputError, match=r"kept and made over all neighbours.*run\.reuse=false"):
        set_up(config_of(parts, 1, one_layer, boundary=0.5, boundary_mean="ratio"), Team())
    set_up(config_of(parts, 1, one_layer, boundary=0.5, boundary_mean="ratio", reuse=False), Team())
    set_up(config_of(parts, 1, SAGE, boundary=0.5, boundary_mean="ratio"), Team())


def test_no_index_is_sent(parts: Path) -> None:
    """Planning sends sizes alone; a layer then sends rows · width · 4 bytes forwards, and as many as came backwards."""
    config = config_of(parts, 4, GCN, boundary=0.5, reuse=False)

    def work(team: Team) -> tuple[int, int]:
        setup = set_up(config, team)
        assert isinstance(setup.work, TeamWork)
        team.ledger.close()
        plan = setup.work.strategy.plan(1, 0)
        sizes = 8 * (3 * len(plan.layers) + 1)
        assert team.ledger.close().bytes_to == tuple(sizes * (peer != team.rank) for peer in range(4))
        view = setup.work.whole.filler.fill(plan).views[1]
        assert sum(team.ledger.close().bytes_to) == 0
        traffic, width = plan.layers[1].traffic, 5
        rows = torch.ones(traffic.owned, width, requires_grad=True)
        out = view.aggregate(Copy(), "sum", rows)
        forward = team.ledger.close()
        assert forward.bytes_to == tuple(len(sent) * width * 4 for sent in traffic.send)
        assert forward.rows_by_layer == (0, traffic.mirrors)
        out.sum().backward()  # type: ignore[no-untyped-call]
        assert team.ledger.close().bytes_to == tuple(traffic.mirror_count(peer) * width * 4 for peer in range(4))
        return traffic.mirrors, setup.work.whole.source.graph.traffic.mirrors

    heard, known = np.sum(run_threads(4, work), axis=0)
    assert 0.3 < heard / known < 0.7
