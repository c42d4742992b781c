from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.plan.cluster import Cluster
from starling.plan.find_clusters import find_clusters, refuse_no_clusters, stored_clusters
from starling.plan.registry import make_strategy
from starling.plan.source import NeighbourSource
from starling.stream.edges import EdgesInMemory
from tests.plan.sources import Drawn, check_blocks, draw_graph, graphs, in_words_of_positions
from tests.support.tiny import clique, undirected


def cluster(graph: NeighbourSource, train: np.ndarray, clusters: np.ndarray, layers: int = 2, **given: object) -> Cluster:
    strategy = make_strategy("cluster", given, graph, train, layers, 3, clusters=clusters)
    assert isinstance(strategy, Cluster)
    return strategy


@given(graphs, st.integers(1, 5), st.integers(1, 3), st.integers(0, 3), st.integers(0, 1000))
def test_nested_sets(graph: Drawn, count: int, together: int, hops: int, seed: int) -> None:
    """Against the definition: S₀ the clusters, S₁ … with the in-neighbours of the one before; inside S_h beyond."""
    generator = np.random.default_rng(seed)
    clusters, train = generator.integers(0, count, graph.nodes), np.flatnonzero(generator.random(graph.nodes) < 0.5)
    train = train if len(train) else np.array([0])
    dealt = set(clusters[train].tolist())
    together, source = min(together, len(dealt)), graph.source
    strategy = cluster(source, train, clusters, 3, clusters_per_step=together, boundary_hops=hops)
    targets: list[int] = []
    for plan in strategy.plans(1):
        check_blocks(plan, source)
        targets += plan.targets.tolist()
        chosen = set(clusters[plan.targets].tolist())
        assert len(chosen) <= together
        sets = [set(np.flatnonzero(np.isin(clusters, list(chosen))).tolist())]
        for _ in range(hops):
            sets.append(sets[-1] | {int(u) for u, v in graph.pairs if int(v) in sets[-1]})
        for j, block in enumerate(reversed(plan.blocks), 1):
            to, among = sets[min(j - 1, hops)], sets[min(j, hops)]
            assert set(plan.inputs[: block.destinations].tolist()) == to
            assert set(plan.inputs[: block.sources].tolist()) == among
            wanted = [e for e, (u, v) in enumerate(graph.pairs.tolist()) if v in to and u in among]
            assert sorted(source.incoming.edge[block.edge].tolist()) == wanted
            left = np.diff(block.offsets)
            degree = source.in_degree[plan.inputs[: block.destinations]]
            if block.row_scale is None:
                np.testing.assert_array_equal(left, degree)
            else:
                np.testing.assert_allclose(block.row_scale, np.where(left > 0, degree / np.maximum(left, 1), 1), rtol=1e-6)
    assert sorted(targets) == train.tolist(), "an epoch has every training node once"


@given(graphs, st.integers(0, 1000))
def test_numbering_and_threads_change_nothing(graph: Drawn, seed: int) -> None:
    clusters, train = np.random.default_rng(seed).integers(0, 4, graph.nodes), np.arange(0, graph.nodes, 2)
    other, row_of = graph.renumbered(seed)
    there = np.empty_like(clusters)
    there[row_of] = clusters
    first = cluster(graph.source, train, clusters, boundary_hops=1)
    second = make_strategy("cluster", {"boundary_hops": 1}, other, row_of[train], 2, 3, 4, clusters=there)
    # training rows inside a step come by position, so the order in which they were given does not matter either
    for one, two in zip(first.plans(2), second.plans(2), strict=True):
        assert in_words_of_positions(one, graph.source) == in_words_of_positions(two, other)


def test_epochs_deal_clusters_in_other_orders() -> None:
    graph, clusters = draw_graph(50, 300, 0).source, np.arange(50) // 5
    strategy = cluster(graph, np.arange(50), clusters)
    orders = [[int(clusters[plan.targets[0]]) for plan in strategy.plans(epoch)] for epoch in (0, 1, 0)]
    assert sorted(orders[0]) == list(range(10))
    assert orders[0] == orders[2] != orders[1]


@pytest.mark.parametrize("method", ["metis", "spring", "louvain", "leiden"])
def test_clusters_are_found(method: str) -> None:
    edges = undirected([*clique(*range(8)), *clique(*range(8, 16)), (0, 8)], 16)
    asked = {} if method in ("louvain", "leiden") else {"clusters": 2}
    found = find_clusters(edges, Cluster.Settings.model_validate({"method": method, **asked}))
    assert found.shape == (16,)
    assert found.min() == 0
    if method != "spring":  # a streaming method may part a clique
        assert len(set(found[:8].tolist())) == len(set(found[8:].tolist())) == 1
        assert found[0] != found[8]


def test_what_is_no_cluster_method_is_refused() -> None:
    edges = EdgesInMemory(np.array([[0, 1]]), 2, directed=True)
    with pytest.raises(InputError, match="hdrf cuts edges apart"):
        find_clusters(edges, Cluster.Settings(method="hdrf"))
    with pytest.raises(InputError, match="louvain finds the number of clusters itself"):
        find_clusters(edges, Cluster.Settings(method="louvain", clusters=3))
    with pytest.raises(InputError, match="Did you mean 'metis'"):
        find_clusters(edges, Cluster.Settings(method="mettis"))


def test_bad_settings_are_refused() -> None:
    graph, train = draw_graph(20, 60, 0).source, np.arange(10)
    with pytest.raises(InputError, match="needs the cluster of each of 20 rows, got none"):
        make_strategy("cluster", {}, graph, train, 2)
    with pytest.raises(InputError, match=r"got an array of shape \(3,\)"):
        cluster(graph, train, np.zeros(3, int))
    with pytest.raises(InputError, match="at most 2 boundary hops, one a layer, got 3"):
        cluster(graph, train, np.zeros(20, int), boundary_hops=3)
    with pytest.raises(InputError, match="at most 1 clusters a step, as many as hold training nodes, got 4"):
        cluster(graph, train, np.zeros(20, int), clusters_per_step=4)
    with pytest.raises(InputError, match="every training node in a cluster"):
        cluster(graph, train, np.full(20, -1))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([0.5, 1.0]), "whole number for each node .*, got float64 values"),
        (np.zeros((2, 2), np.int32), "got int32 values of shape"),
        (np.array([0, 9]), "clusters from 0 to 3 .*, got 0 to 9"),
        (np.array([-1, 0]), "got -1 to 0"),
    ],
)
def test_stored_clusters_that_make_no_sense_are_refused(values: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        stored_clusters(values, 4)


def test_a_number_of_stored_clusters_is_refused() -> None:
    with pytest.raises(InputError, match="are there already"):
        refuse_no_clusters(Path("p"), ["cluster"], Cluster.Settings(method="stored", clusters=3))
