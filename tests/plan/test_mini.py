from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.plan.mini import Mini
from starling.plan.registry import make_strategy
from starling.plan.source import NeighbourSource
from tests.plan.sources import Drawn, check_blocks, draw_graph, graphs, in_words_of_positions, star

WAYS: list[dict[str, object]] = [
    {},
    {"fanouts": "3,2"},
    {"fanouts": "3,2", "replace": True},
    {"fanouts": "3,2", "sampling": "weighted"},
    {"fanouts": "3,2", "sampling": "weighted", "replace": True},
    {"fanouts": "4,4", "sampling": "layerwise"},
    {"fanouts": "4,4", "sampling": "layerwise", "replace": True},
    {"fanouts": "all,2"},
]


def mini(graph: NeighbourSource, train: Any = None, layers: int = 2, seed: int = 0, threads: int = 1, **given: object) -> Mini:
    rows = np.arange(graph.rows) if train is None else np.asarray(train)
    strategy = make_strategy("mini", given, graph, rows, layers, seed, threads)
    assert isinstance(strategy, Mini)
    return strategy


def breadth_first(graph: Drawn, targets: list[int], hops: int) -> list[set[int]]:
    """The slow twin: who is reached within 0, 1, … hops."""
    reached = [set(targets)]
    for _ in range(hops):
        reached.append(reached[-1] | {int(u) for u, v in graph.pairs if int(v) in reached[-1]})
    return reached


@given(graphs, st.integers(1, 3), st.integers(1, 8), st.integers(0, 100))
def test_full_neighbours_are_those_of_a_breadth_first_search(graph: Drawn, layers: int, size: int, epoch: int) -> None:
    strategy = mini(graph.source, layers=layers, batch_size=min(size, graph.nodes))
    seen: list[int] = []
    for plan in strategy.plans(epoch):
        check_blocks(plan, graph.source)
        seen += plan.targets.tolist()
        reached = breadth_first(graph, plan.targets.tolist(), layers)
        for hop, block in enumerate(reversed(plan.blocks)):
            assert set(plan.inputs[: block.destinations].tolist()) == reached[hop]
            assert set(plan.inputs[: block.sources].tolist()) == reached[hop + 1]
            wanted = [j for j, (_, v) in enumerate(graph.pairs.tolist()) if v in reached[hop]]
            assert sorted(graph.source.incoming.edge[block.edge].tolist()) == wanted
            assert block.row_scale is None
            assert block.edge_scale is None
    assert sorted(seen) == list(range(graph.nodes)), "an epoch has every training node once"


@pytest.mark.parametrize("way", WAYS, ids=str)
@settings(max_examples=25)
@given(graph=graphs, seed=st.integers(0, 1000))
def test_numbering_and_threads_change_nothing(way: dict[str, object], graph: Drawn, seed: int) -> None:
    train = np.flatnonzero(np.random.default_rng(seed).random(graph.nodes) < 0.7)
    train = train if len(train) else np.array([0])
    size = max(1, len(train) // 2)
    other, row_of = graph.renumbered(seed)
    first = mini(graph.source, train, seed=seed, batch_size=size, **way)
    second = mini(other, row_of[train], seed=seed, threads=4, batch_size=size, **way)
    assert first.steps_per_epoch == second.steps_per_epoch
    for one, two in zip(first.plans(3), second.plans(3), strict=True):
        check_blocks(one, graph.source)
        assert in_words_of_positions(one, graph.source) == in_words_of_positions(two, other)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_plan_depends_on_its_step_alone(way: dict[str, object]) -> None:
    graph = draw_graph(300, 6000, 5).source
    strategy = mini(graph, batch_size=64, **way)
    in_order = [in_words_of_positions(plan, graph) for plan in strategy.plans(1)]
    backwards = [in_words_of_positions(strategy.plan(1, step), graph) for step in reversed(range(len(in_order)))]
    assert in_order == backwards[::-1]
    assert in_order[2:] == [in_words_of_positions(plan, graph) for plan in strategy.plans(1, first_step=2)]
    assert in_order != [in_words_of_positions(plan, graph) for plan in strategy.plans(2)]
    assert in_order != [in_words_of_positions(plan, graph) for plan in mini(graph, seed=1, batch_size=64, **way).plans(1)]


def test_hops_and_steps_draw_for_themselves() -> None:
    graph = star(200)
    strategy = mini(graph, [0], fanouts="5,5")
    plan = strategy.plan(0, 0)
    inner, outer = plan.blocks[1], plan.blocks[0]
    of_hub = outer.edge[outer.offsets[0] : outer.offsets[1]].tolist()
    assert inner.edge.tolist() != of_hub, "the hub is drawn for again at the second hop"


@pytest.mark.parametrize("way", [way for way in WAYS if "fanouts" in way], ids=str)
def test_scaled_sums_are_unbiased(way: dict[str, object]) -> None:
    """The mean over epochs of Σ scale · x over what was taken is Σ x over all in-edges (of some weight, if by weight)."""
    drawn = draw_graph(12, 120, 4)
    graph, value = drawn.source, np.random.default_rng(0).random(12)
    strategy = mini(graph, [2, 5, 7], layers=1, **(way | {"fanouts": str(way["fanouts"]).split(",")[1]}), shuffle=False)
    sums = np.zeros((3000, 3))
    for epoch in range(len(sums)):
        plan = strategy.plan(epoch, 0)
        block = plan.blocks[0]
        scale = np.ones(len(block.edge)) if block.edge_scale is None else block.edge_scale
        to = np.repeat(np.arange(3), np.diff(block.offsets))
        total = np.bincount(to, value[plan.inputs[block.neighbours]] * scale, minlength=3)
        sums[epoch] = total if block.row_scale is None else total * block.row_scale
    counted = drawn.weight > 0 if way.get("sampling") == "weighted" else np.ones(len(drawn.pairs), bool)
    for i, target in enumerate([2, 5, 7]):
        whole = value[drawn.pairs[counted & (drawn.pairs[:, 1] == target), 0]].sum()
        assert abs(sums[:, i].mean() - whole) < 4.5 * sums[:, i].std() / np.sqrt(len(sums))


def test_layerwise_takes_no_more_nodes_than_asked() -> None:
    graph = draw_graph(400, 8000, 2).source
    plan = mini(graph, np.arange(20), fanouts="30,40", sampling="layerwise").plan(0, 0)
    assert [block.sources - block.destinations for block in plan.blocks] == [40, 30]
    check_blocks(plan, graph)


def test_layerwise_shares_its_sample_among_the_rows() -> None:
    """A row has exactly those of its in-neighbours that are in the sample or are rows themselves."""
    drawn = draw_graph(40, 500, 2)
    plan = mini(drawn.source, np.arange(5), layers=1, fanouts="9", sampling="layerwise").plan(0, 0)
    block, inputs = plan.blocks[0], set(plan.inputs.tolist())
    for i, target in enumerate(plan.targets.tolist()):
        mine = plan.inputs[block.neighbours[block.offsets[i] : block.offsets[i + 1]]].tolist()
        assert mine == [int(u) for u, v in drawn.pairs if v == target and int(u) in inputs]


def test_the_first_fanout_is_for_the_targets() -> None:
    graph = draw_graph(400, 20_000, 2).source
    plan = mini(graph, np.arange(20), fanouts="7,3").plan(0, 0)
    assert np.diff(plan.blocks[1].offsets).max() == 7
    assert np.diff(plan.blocks[0].offsets).max() == 3


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"fanouts": "15,10,5"},
            r"Expected 2 fan-outs, one a layer, got 3 \(15,10,5\)\. Give --fanouts 2 numbers, or set --layers 3\.",
        ),
        ({"batch_size": 31}, r"Expected a batch of at most the 30 training nodes, got 31\. Lower --batch-size\."),
        ({"batch_size": 0}, "batch_size"),
        ({"fanouts": "15,ten"}, "expected numbers of at least 1, or 'all', such as 15,10,5, got 'ten'"),
        ({"fanouts": "15,0"}, "got '0'"),
        ({"fanout": "15,10"}, r"The strategy mini has no setting 'fanout'\. Did you mean 'fanouts'\?"),
        ({"sampling": "weighted"}, "needs --fanouts"),
        ({"replace": True}, "needs --fanouts"),
        ({"replace": True, "fanouts": "all,-1"}, "needs --fanouts"),
        ({"sampling": "weighed", "fanouts": "2,2"}, "sampling"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        mini(draw_graph(30, 100, 0).source, **given)


def test_weights_are_checked() -> None:
    with pytest.raises(InputError, match="the graph has none"):
        mini(star(3), fanouts="2,2", sampling="weighted")
    with pytest.raises(InputError, match=r"at least 0 to sample by, got -1\.0 at edge 1"):
        mini(star(3, np.array([1.0, -1.0, 2.0])), fanouts="2,2", sampling="weighted")


def test_the_default_batch_is_never_too_large() -> None:
    graph = draw_graph(1500, 10, 0).source
    assert mini(graph).steps_per_epoch == 2
    assert mini(graph, np.arange(20)).steps_per_epoch == 1
