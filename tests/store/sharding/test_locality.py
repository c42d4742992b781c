"""Streaming clusters inside parts."""

from __future__ import annotations

import numpy as np

from starling.store.sharding.locality import streamed_locality
from starling.store.sharding.node_order import order_nodes
from starling.store.sharding.survey import survey_edges
from starling.stream.edges import EdgesInMemory
from tests.support.data import real_graph


def ranks(pairs: np.ndarray, nodes: int, owner: np.ndarray) -> np.ndarray:
    stream = EdgesInMemory(pairs.astype(np.int32), nodes, directed=True)
    return streamed_locality(stream, owner, survey_edges(stream))


def test_cliques_lie_together() -> None:
    """Ten cliques of eight nodes with shuffled numbers and shuffled edges."""
    rng = np.random.default_rng(5)
    number = rng.permutation(80)
    inside = [(8 * c + i, 8 * c + j) for c in range(10) for i in range(8) for j in range(8) if i != j]
    pairs = number[np.array(inside)]
    order = np.argsort(ranks(rng.permutation(pairs), 80, np.zeros(80, np.int32)))
    clique = np.empty(80, int)
    clique[number] = np.arange(80) // 8
    assert np.count_nonzero(np.diff(clique[order])) == 9


def test_ranks_are_a_permutation_and_leave_parts_apart() -> None:
    """Nodes 0 … 7 are one clique cut in two: neither half is torn by the other."""
    pairs = np.array([(i, j) for i in range(8) for j in range(8) if i != j])
    owner = np.arange(8, dtype=np.int32) % 2
    found = ranks(pairs, 8, owner)
    assert sorted(found.tolist()) == list(range(8))
    assert np.count_nonzero(np.diff(owner[np.argsort(found)])) == 1


def test_no_edges_keep_the_order() -> None:
    assert ranks(np.zeros((0, 2), int), 5, np.zeros(5, np.int32)).tolist() == [0, 1, 2, 3, 4]


def test_neighbours_come_closer_on_a_real_graph() -> None:
    """On web_notredame with shuffled numbers, the median distance between the ends of an edge falls a hundredfold."""
    with np.load(real_graph("web_notredame")) as data:
        nodes, pairs = int(data["num_nodes"]), data["edge_index"].T
    pairs = np.random.default_rng(1).permutation(nodes)[pairs]
    order = order_nodes(np.zeros(nodes, np.int32), 1, ranks(pairs, nodes, np.zeros(nodes, np.int32)))
    before = np.median(np.abs(pairs[:, 0] - pairs[:, 1]))
    after = order.global_of_position[pairs].astype(int)
    assert np.median(np.abs(after[:, 0] - after[:, 1])) * 100 < before
