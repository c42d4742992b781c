"""Neighbour lists are symmetric, sorted, and without self-loops or duplicates, whatever comes in."""

from __future__ import annotations

from hypothesis import given

from starling.partition.adjacency import read_adjacency
from starling.partition.contract import PartitionTask
from starling.stream.edges import EdgesInMemory
from tests.support.tiny import directed, stored, streams


@given(streams())
def test_lists_are_the_neighbours(edges: EdgesInMemory) -> None:
    graph = read_adjacency(PartitionTask(edges, 2))
    neighbours: list[set[int]] = [set() for _ in range(edges.nodes)]
    for u, v in stored(edges):
        if u != v:
            neighbours[u].add(v)
            neighbours[v].add(u)
    bounds = graph.start.tolist()
    for v in range(edges.nodes):
        assert graph.neighbour[bounds[v] : bounds[v + 1]].tolist() == sorted(neighbours[v])
    assert bounds[-1] == len(graph.neighbour)
    once = [(u, v) for u in range(edges.nodes) for v in sorted(neighbours[u]) if u < v]
    assert [tuple(row) for row in graph.pairs().tolist()] == once


def test_by_hand() -> None:
    graph = read_adjacency(PartitionTask(directed([(2, 0), (0, 2), (1, 1), (2, 0), (3, 2)], 4), 2))
    assert graph.start.tolist() == [0, 1, 1, 3, 4]
    assert graph.neighbour.tolist() == [2, 0, 3, 2]
    assert graph.nodes == 4
