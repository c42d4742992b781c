"""Plans that look only into the past, against a slow twin and by hand; fan-outs by relation as users write them."""

from __future__ import annotations

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.kernels.csr import csr_from_pairs
from starling.plan.fanouts import by_relation
from starling.plan.mini import Mini
from starling.plan.registry import make_strategy, read_settings
from starling.plan.source import NeighbourSource
from starling.plan.timed import PastNeighbours


def source(nodes: int = 12, edges: int = 70, seed: int = 0) -> tuple[NeighbourSource, np.ndarray]:
    draw = np.random.default_rng(seed)
    pairs = draw.integers(0, nodes, (edges, 2)).astype(np.int32)
    lists = csr_from_pairs(pairs, nodes)
    times, kinds = draw.integers(0, 20, edges), draw.integers(0, 3, edges)
    graph = NeighbourSource(
        lists,
        nodes,
        edge_type=kinds[lists.edge],
        relations=("a__cites__b", "b__writes__a", "a__knows__a"),
        types=3,
        edge_time=times[lists.edge],
        node_time=draw.integers(5, 20, nodes),
    )
    return graph, pairs


def tree(graph: NeighbourSource, row: int, limit: int, hops: int) -> list[tuple[int, ...]]:
    """All paths of edges into a target through its past, as entries of the lists."""
    assert graph.edge_time is not None
    if hops == 0:
        return [()]
    paths: list[tuple[int, ...]] = []
    for entry in range(int(graph.incoming.offsets[row]), int(graph.incoming.offsets[row + 1])):
        if graph.edge_time[entry] <= limit:
            paths += [(entry, *rest) for rest in tree(graph, int(graph.incoming.neighbours[entry]), limit, hops - 1)]
    return paths


def test_every_path_lies_in_the_targets_past() -> None:
    """With all neighbours, the paths of the plan are those of each target's own tree; sampled, they are among them."""
    graph, _ = source()
    assert graph.node_time is not None
    assert graph.edge_time is not None
    targets = np.array([3, 0, 7, 11], np.int32)
    for hops, exact in (((("all",),) * 2, True), (((2,), (2,)), False)):
        plan = PastNeighbours(graph, hops, 0).plan(1, 0, targets)
        outer, inner = plan.blocks
        for place, target in enumerate(targets):
            paths = []
            for k in range(inner.offsets[place], inner.offsets[place + 1]):
                middle = inner.neighbours[k]
                assert plan.inputs[middle] == graph.incoming.neighbours[inner.edge[k]]
                for m in range(outer.offsets[middle], outer.offsets[middle + 1]):
                    paths.append((int(inner.edge[k]), int(outer.edge[m])))
            whole = tree(graph, int(target), int(graph.node_time[target]), 2)
            assert sorted(paths) == sorted(whole) if exact else set(paths) <= set(whole)


def test_a_node_has_a_past_for_each_moment() -> None:
    """0 at time 1 and 1 at time 9 both hear 2, which hears 3 at time 5: only the second sees that."""
    lists = csr_from_pairs(np.array([[2, 0], [2, 1], [3, 2]], np.int32), 4)
    graph = NeighbourSource(lists, 4, edge_time=np.array([0, 0, 5]), node_time=np.array([1, 9, 0, 0]))
    plan = PastNeighbours(graph, (("all",),) * 2, 0).plan(1, 0, np.array([0, 1], np.int32))
    assert plan.inputs.tolist() == [0, 1, 2, 2, 3]
    outer, inner = plan.blocks
    assert inner.neighbours.tolist() == [2, 3]
    assert np.diff(outer.offsets).tolist() == [1, 1, 0, 1]
    assert outer.degree is not None
    assert outer.degree.tolist() == [1, 1, 0, 1, 0]


def test_targets_of_one_time_share_their_past() -> None:
    lists = csr_from_pairs(np.array([[2, 0], [2, 1]], np.int32), 3)
    graph = NeighbourSource(lists, 3, edge_time=np.array([0, 0]), node_time=np.array([4, 4, 0]))
    plan = PastNeighbours(graph, (("all",),), 0).plan(1, 0, np.array([0, 1], np.int32))
    assert plan.inputs.tolist() == [0, 1, 2]


def test_mini_looks_into_the_past_when_asked() -> None:
    graph, _ = source()
    strategy = make_strategy("mini", {"past": True, "fanouts": "cites:2,1;*:1,1", "batch_size": 3}, graph, np.arange(8), 2)
    assert graph.edge_time is not None
    assert graph.node_time is not None
    for plan in strategy.plans(1):
        latest = graph.node_time[plan.targets].max()
        assert all((graph.edge_time[block.edge] <= latest).all() for block in plan.blocks)
        again = strategy.plan(1, plan.step)
        assert np.array_equal(plan.inputs, again.inputs)


def test_what_is_missing_is_said() -> None:
    graph, _ = source()
    bare = NeighbourSource(graph.incoming, 12)
    with pytest.raises(InputError, match="a time for every edge"):
        make_strategy("mini", {"past": True}, bare, np.arange(8), 2)
    with pytest.raises(InputError, match=r"a time for every node.*--before"):
        make_strategy("mini", {"past": True}, NeighbourSource(graph.incoming, 12, edge_time=graph.edge_time), np.arange(8), 2)
    with pytest.raises(InputError, match="got sampling = weighted"):
        make_strategy("mini", {"past": True, "sampling": "weighted", "fanouts": "2,2"}, graph, np.arange(8), 2)
    with pytest.raises(InputError, match="need edge types"):
        make_strategy("mini", {"fanouts": "cites:2,2;*:1,1"}, bare, np.arange(8), 2)
    with pytest.raises(InputError, match="got sampling = layerwise"):
        make_strategy("mini", {"fanouts": "*:1,1", "sampling": "layerwise"}, graph, np.arange(8), 2)


def test_fanouts_by_relation() -> None:
    settings = read_settings("mini", {"fanouts": "cites:10,5; http://x#y:all,0;*:3,3"})
    assert isinstance(settings, Mini.Settings)
    assert settings.fanouts is None
    assert settings.type_fanouts == {"cites": (10, 5), "http://x#y": ("all", 0), "*": (3, 3)}
    again = read_settings("mini", settings.model_dump())
    assert again == settings
    names = ("a__cites__b", "http://x#y", "b__writes__a")
    assert by_relation(settings.type_fanouts, names, 3, 2) == ((10, "all", 3), (5, 0, 3))
    assert by_relation({"0": (1,), "1": (2,)}, (), 2, 1) == ((1, 2),)
    with pytest.raises(InputError, match=r"no relation 'cite' .*Did you mean 'cites'"):
        by_relation({"cite": (1, 1)}, names, 3, 2)
    with pytest.raises(InputError, match=r"none of 'b__writes__a'. .*\*:all,all"):
        by_relation({"cites": (1, 1), "http://x#y": (1, 1)}, names, 3, 2)
    with pytest.raises(InputError, match="Expected 2 fan-outs, one a layer, got 1"):
        by_relation({"*": (1,)}, names, 3, 2)
    with pytest.raises(InputError, match="twice under two names"):
        by_relation({"cites": (1, 1), "a__cites__b": (1, 1), "*": (1, 1)}, names, 3, 2)
    with pytest.raises(InputError, match="such as cites:10,5, got 'cites'"):
        read_settings("mini", {"fanouts": "cites;*:1,1"})
    with pytest.raises(InputError, match="at least 0, or 'all'"):
        read_settings("mini", {"fanouts": "cites:x"})
