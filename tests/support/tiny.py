"""Tiny graphs on which partitioners go wrong, and random ones."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from starling.stream.edges import EdgesInMemory

Pairs = list[tuple[int, int]]


def undirected(pairs: Pairs, nodes: int) -> EdgesInMemory:
    """Each pair, then its reverse; a self-loop once."""
    stored = [copy for u, v in pairs for copy in ([(u, v), (v, u)] if u != v else [(u, u)])]
    return EdgesInMemory(np.array(stored, np.int32).reshape(-1, 2), nodes, directed=False)


def directed(pairs: Pairs, nodes: int) -> EdgesInMemory:
    """The pairs as they are."""
    return EdgesInMemory(np.array(pairs, np.int64).reshape(-1, 2), nodes, directed=True)


def clique(*members: int) -> Pairs:
    """Every two of the members."""
    return list(itertools.combinations(members, 2))


TINY: dict[str, EdgesInMemory] = {
    "star": undirected([(0, leaf) for leaf in range(1, 9)], 9),
    "path": undirected([(i, i + 1) for i in range(9)], 10),
    "two cliques": undirected([*clique(0, 1, 2, 3), *clique(4, 5, 6, 7)], 8),
    "joined cliques": undirected([*clique(0, 1, 2, 3, 4), *clique(5, 6, 7, 8, 9), (4, 5)], 10),
    "isolated nodes": undirected([(2, 5), (5, 6)], 12),
    "self-loops": undirected([(0, 0), (0, 1), (1, 1), (2, 3), (3, 3), (5, 5)], 6),
    "parallel edges": directed([(0, 1), (0, 1), (1, 0), (1, 2), (1, 2), (3, 2)], 4),
    "directed": directed([(0, 1), (1, 2), (2, 0), (3, 0), (4, 3), (5, 3), (3, 6)], 7),
    "no edges": undirected([], 5),
    "one node": undirected([], 1),
    "one loop": undirected([(0, 0)], 1),
    "no nodes": undirected([], 0),
}


@st.composite
def streams(draw: st.DrawFn, most_nodes: int = 24, most_edges: int = 80) -> EdgesInMemory:
    """Random graphs among few nodes, directed or not, with self-loops and parallel edges."""
    nodes = draw(st.integers(1, most_nodes))
    node = st.integers(0, nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=most_edges))
    return directed(pairs, nodes) if draw(st.booleans()) else undirected(pairs, nodes)


def stored(edges: EdgesInMemory) -> Pairs:
    """The edges of a stream as a list."""
    return [(int(u), int(v)) for block in edges.blocks() for u, v in block.pairs]


def connections(edges: EdgesInMemory) -> Pairs:
    """Each connection once, as methods that know no direction see them."""
    return [(u, v) for u, v in stored(edges) if (u < v or (edges.directed and u > v))]


def degrees(edges: EdgesInMemory) -> list[int]:
    """Edges at each node, of an undirected graph each connection once."""
    count = [0] * edges.nodes
    for u, v in stored(edges):
        count[u] += 1
        if edges.directed:
            count[v] += 1
    return count
