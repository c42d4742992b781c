from __future__ import annotations

import numpy as np
from hypothesis import given

from starling.kernels.adjacency import HUB_EDGES, Adjacency, adjacency
from tests.kernels.graphs import adjacencies, edge_rows, make


@given(adjacencies)
def test_transpose_holds_the_same_edges_in_edge_order(edges: Adjacency) -> None:
    back = edges.transposed
    assert back.rows == edges.columns
    assert back.columns == edges.rows
    order = np.argsort(edges.neighbours, kind="stable")
    assert np.array_equal(back.edges, order)
    assert np.array_equal(back.neighbours, edge_rows(edges)[order])
    assert np.array_equal(edge_rows(back), edges.neighbours[order])


def test_transpose_by_hand() -> None:
    """Row 0 hears from 2 and 1, row 1 from 2: source 1 is heard by row 0 (edge 1), source 2 by rows 0 and 1 (edges 0 and 2)."""
    back = adjacency(np.array([0, 2, 3]), np.array([2, 1, 2], np.int32), 3).transposed
    assert back.offsets.tolist() == [0, 0, 1, 3]
    assert back.neighbours.tolist() == [0, 0, 1]
    assert back.edges.tolist() == [1, 0, 2]


def test_a_hub_is_cut_into_pieces_that_cover_it_once() -> None:
    edges = make(5, 7, 20, seed=1, hub=True)
    work = edges.hubs
    assert work is not None
    assert set(work.owner) == {2}
    assert work.begin[0] == edges.offsets[2]
    assert work.end[-1] == edges.offsets[3]
    assert np.array_equal(work.begin[1:], work.end[:-1])
    assert len(work.begin) == 4
    assert edges.ordinary.limit == HUB_EDGES
    assert make(5, 7, 20, seed=1).hubs is None
