from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError, StarlingError
from starling.core.keyed import stream_key
from starling.kernels.csr import Csr
from starling.plan.registry import make_strategy
from starling.plan.saint.draws import ByEdge, ByNode, ByWalk
from starling.plan.saint.normalisation import no_counts
from starling.plan.saint.strategy import Saint
from starling.plan.source import NeighbourSource
from tests.plan.sources import Drawn, check_blocks, draw_graph, graphs, in_words_of_positions, star

WAYS = ("node", "edge", "walk")


def saint(graph: NeighbourSource, train: np.ndarray | None = None, threads: int = 1, **given: object) -> Saint:
    rows = np.arange(graph.rows) if train is None else train
    strategy = make_strategy("saint", given, graph, rows, 2, 5, threads)
    assert isinstance(strategy, Saint)
    return strategy


@pytest.mark.parametrize("draws", WAYS)
@settings(max_examples=25)
@given(graph=graphs, seed=st.integers(0, 1000))
def test_sub_graphs_are_induced_and_numbering_changes_nothing(draws: str, graph: Drawn, seed: int) -> None:
    if draws == "edge" and not len(graph.pairs):
        return
    given = {"draws": draws, "count": 4, "coverage": 2, "steps": 3}
    train = np.arange(0, graph.nodes, 2)
    if draws == "edge" and not np.isin(graph.pairs, train).any():
        return
    other, row_of = graph.renumbered(seed)
    first, second = saint(graph.source, train, **given), saint(other, row_of[train], 4, **given)
    for one, two in zip(first.plans(2), second.plans(2), strict=True):
        check_blocks(one, graph.source)
        assert in_words_of_positions(one, graph.source) == in_words_of_positions(two, other)
        inside = set(one.inputs.tolist())
        wanted = [e for e, pair in enumerate(graph.pairs.tolist()) if set(pair) <= inside]
        assert sorted(graph.source.incoming.edge[one.blocks[0].edge].tolist()) == wanted
        assert sorted(one.targets.tolist()) == sorted(inside & set(train.tolist()))
        assert one.blocks[0] is one.blocks[1]
        assert one.blocks[0].sources == one.blocks[0].destinations == len(inside)


def test_counts_by_hand() -> None:
    """Three sub-graphs of the path 0 → 1 → 2: {0, 1}, {1, 2}, {0, 1, 2}; entries of the lists are 0→1 and 1→2."""
    counts = no_counts(3, 2)
    path = Csr(np.array([0, 0, 1, 2]), np.array([0, 1], np.int32), np.arange(2, dtype=np.int32))
    for rows, places in (([0, 1], [0, 1, -1]), ([2, 1], [-1, 1, 0]), ([0, 1, 2], [0, 1, 2])):
        counts.add(path, np.array(rows), np.array(places, np.int32))
    assert counts.rows.tolist() == [2, 3, 2]
    assert counts.entries.tolist() == [2, 2]
    scale = counts.edge_scale(np.array([0, 1, 2]), np.array([0, 0, 1, 2]), np.array([0, 1]))
    assert scale.tolist() == [1.5, 1.0], "C_1 / C_01 = 3 / 2 and C_2 / C_12 = 2 / 2"
    np.testing.assert_allclose(counts.loss_weight(np.array([0, 1, 2]), 3), [0.5, 1 / 3, 0.5])


def test_never_counted_is_counted_as_once() -> None:
    counts = no_counts(2, 1)
    pair = Csr(np.array([0, 0, 1]), np.array([0], np.int32), np.zeros(1, np.int32))
    counts.add(pair, np.array([0]), np.array([0, -1], np.int32))
    assert counts.edge_scale(np.array([1]), np.array([0, 1]), np.array([0])).tolist() == [1.0]
    assert counts.loss_weight(np.array([1]), 2).tolist() == [0.5]


def test_nodes_are_drawn_by_the_norm_of_their_column() -> None:
    """Edges 0→1, 0→2, 2→1: degrees 0, 2, 1; with self-loops shares 1, 1/9, 1/4 of the rows."""
    offsets, neighbours = np.array([0, 0, 2, 3]), np.array([0, 2, 0], np.int32)
    graph = NeighbourSource(Csr(offsets, neighbours, np.arange(3, dtype=np.int32)), 3)
    expected = np.array([1 + 1 / 9 + 1 / 4, 1 / 9, 1 / 9 + 1 / 4])
    drawn = ByNode(graph, 200_000).rows(stream_key(0, "test"))
    np.testing.assert_allclose(np.bincount(drawn) / len(drawn), expected / expected.sum(), atol=0.005)


def test_edges_are_drawn_by_the_degrees_of_their_ends() -> None:
    offsets, neighbours = np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1], np.int32)  # the path 0 – 1 – 2 both ways
    graph = NeighbourSource(Csr(offsets, neighbours, np.arange(4, dtype=np.int32)), 3)
    ends = ByEdge(graph, 100_000).rows(stream_key(0, "test")).reshape(-1, 2)
    seen = np.bincount(ends[:, 0] * 3 + ends[:, 1], minlength=9).reshape(3, 3) / len(ends)
    np.testing.assert_allclose(seen, [[0, 0.25, 0], [0.25, 0, 0.25], [0, 0.25, 0]], atol=0.006)
    hub = star(4)  # in-degrees 4, 0, 0, 0, 0: every edge 1 / 4 + 1
    ends = ByEdge(hub, 1000).rows(stream_key(0, "test")).reshape(-1, 2)
    assert set(ends[:, 1].tolist()) == {0}
    assert set(ends[:, 0].tolist()) == {1, 2, 3, 4}


def test_walks_follow_in_edges() -> None:
    drawn = draw_graph(40, 200, 6)
    edges = {(int(u), int(v)) for u, v in drawn.pairs}
    walks = ByWalk(drawn.source, 500, 3).rows(stream_key(0, "test")).reshape(500, 4)
    for walk in walks.tolist():
        for v, u in itertools.pairwise(walk):
            assert (u, v) in edges or (u == v and not any(to == v for _, to in edges))
    roots = np.bincount(walks[:, 0], minlength=40)
    assert roots.max() < 40, "roots are spread over all nodes"


@pytest.mark.parametrize("draws", WAYS)
def test_normalisation_is_unbiased(draws: str) -> None:
    """Over many steps: Σ loss weight · L_v is the mean loss, and given its destination Σ scale · x the sum of all in-edges."""
    drawn = draw_graph(15, 120, 8)
    graph, value = drawn.source, np.random.default_rng(1).random(15)
    strategy = saint(graph, draws=draws, count=3, coverage=4000, steps=4000)
    losses, total, times = [], np.zeros(15), np.zeros(15)
    for plan in strategy.plans(0):
        assert plan.loss_weight is not None
        losses.append(float((plan.loss_weight * value[plan.targets]).sum()))
        block = plan.blocks[0]
        assert block.edge_scale is not None
        to = np.repeat(plan.inputs, np.diff(block.offsets))
        total += np.bincount(to, value[plan.inputs[block.neighbours]] * block.edge_scale, minlength=15)
        times[plan.inputs] += 1
    np.testing.assert_allclose(np.mean(losses), value.mean(), rtol=0.05)
    whole = np.bincount(drawn.pairs[:, 1], value[drawn.pairs[:, 0]], minlength=15)
    often = times > 300
    assert often.sum() > 8
    np.testing.assert_allclose((total / np.maximum(times, 1))[often], whole[often], rtol=0.15)


CIRCLE = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (3, 0), (0, 3)]
"""The circle 0 – 1 – 2 – 3: nodes, edges and steps of a walk are all equally likely."""
OUTCOMES: dict[str, list[tuple[int, ...]]] = {
    "node": list(itertools.product(range(4), repeat=2)),
    "edge": [one + two for one, two in itertools.product(CIRCLE, repeat=2)],
    "walk": [(v, (v + a) % 4, (v + a + b) % 4) for v in range(4) for a, b in itertools.product((1, -1), repeat=2)],
}


@pytest.mark.parametrize("draws", WAYS)
@pytest.mark.parametrize("train", [[0, 1, 2, 3], [0, 1], [2]], ids=len)
def test_with_true_chances_loss_and_sums_are_unbiased(draws: str, train: list[int]) -> None:
    """Every sub-graph that can be drawn, once: counts are then the chances, and means over all steps are expectations."""
    outcomes = [outcome for outcome in OUTCOMES[draws] if set(outcome) & set(train)]
    source = Drawn(4, np.array(CIRCLE, np.int32), np.ones(8)).source
    strategy = saint(source, np.array(train), draws=draws, count=2 if draws != "walk" else 1, steps=len(outcomes))
    strategy._drawn = lambda stream, epoch, step: np.array(outcomes[step], np.int32)  # type: ignore[method-assign]
    strategy._counts = counts = no_counts(4, 8)
    for outcome in outcomes:
        rows = np.unique(outcome)
        places = np.full(4, -1, np.int32)
        places[rows] = np.arange(len(rows))
        counts.add(source.incoming, rows, places)
    value, total, times, loss = np.array([3.0, 5.0, 7.0, 11.0]), np.zeros(4), np.zeros(4), 0.0
    for plan in strategy.plans(0):
        assert plan.loss_weight is not None
        loss += float(plan.loss_weight @ value[plan.targets]) / len(outcomes)
        block = plan.blocks[0]
        assert block.edge_scale is not None
        to = np.repeat(plan.inputs, np.diff(block.offsets))
        total += np.bincount(to, value[plan.inputs[block.neighbours]] * block.edge_scale, minlength=4)
        times[plan.inputs] += 1
    assert loss == pytest.approx(value[train].mean(), rel=1e-6)
    around = np.array([value[v - 1] + value[(v + 1) % 4] for v in range(4)])
    met = counts.entries.reshape(4, 2).min(1) > 0  # beside one lone target an edge may be in no sub-graph at all
    assert met[train].all()
    np.testing.assert_allclose((total / times)[met], around[met], rtol=1e-6)


def test_chances_of_nodes_are_the_exact_ones() -> None:
    """n independent draws hold v with chance 1 − (1 − p_v)ⁿ."""
    drawn = draw_graph(10, 60, 3)
    graph = drawn.source
    strategy = saint(graph, draws="node", count=4, coverage=4000)
    degree = graph.in_degree
    share = (degree + 1.0) ** -2
    p = share + np.bincount(drawn.pairs[:, 0], share[drawn.pairs[:, 1]], minlength=10)
    exact = 1 - (1 - p / p.sum()) ** 4
    np.testing.assert_allclose(strategy._counts.rows / strategy._counts.drawn, exact, rtol=0.08)


def test_steps_cover_the_graph() -> None:
    graph = draw_graph(500, 3000, 0).source
    strategy = saint(graph, draws="node", count=50)
    sizes = [len(plan.inputs) for plan in strategy.plans(0)]
    assert 400 < sum(sizes) < 600
    assert saint(graph, draws="node", count=50, steps=7).steps_per_epoch == 7


def test_a_sub_graph_without_a_target_is_drawn_again() -> None:
    graph = draw_graph(200, 400, 0).source
    strategy = saint(graph, np.array([17]), draws="walk", count=3, coverage=1, steps=20)
    assert all(plan.targets.tolist() == [17] for plan in strategy.plans(0))


def test_bad_settings_are_refused() -> None:
    graph = draw_graph(20, 60, 0).source
    with pytest.raises(InputError, match=r"Did you mean 'walk_length'\?"):
        saint(graph, walk_lenght=3)
    with pytest.raises(InputError, match="A walk length was given, but nodes are drawn"):
        saint(graph, draws="node", walk_length=3)
    with pytest.raises(InputError, match=r"at most 100,000 walks in a sub-graph.*got 100,000,000. Lower 'count'"):
        saint(graph, count=100_000_000)
    with pytest.raises(InputError, match="got a graph without any"):
        saint(draw_graph(3, 0, 0).source, draws="edge")
    part = NeighbourSource(Csr(np.array([0, 1]), np.array([1], np.int32), np.zeros(1, np.int32)), 2)
    with pytest.raises(InputError, match="got a part with halo nodes"):
        saint(part, np.array([0]))
    lonely = NeighbourSource(Csr(np.array([0, 0, 1, 2]), np.array([2, 1], np.int32), np.arange(2, dtype=np.int32)), 3)
    with pytest.raises(StarlingError, match="held no training node"):
        saint(lonely, np.array([0]), draws="edge", count=2)
