from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.csr import csr_from_pairs
from starling.kernels.induced import count_within, take_within
from tests.plan.sources import Drawn, graphs


def test_by_hand() -> None:
    lists = csr_from_pairs(np.array([[0, 1], [2, 1], [1, 0], [3, 0]]), 4)
    taken = take_within(lists, np.array([1, 0]), np.array([1, 0, -1, 2], np.int32))
    assert taken.offsets.tolist() == [0, 1, 3]
    assert taken.neighbours.tolist() == [1, 0, 2]
    assert lists.edge[taken.entry].tolist() == [0, 2, 3]


@given(graphs, st.integers(0, 1000), st.sampled_from([1, 4]))
def test_as_the_slow_twin(graph: Drawn, seed: int, threads: int) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.permutation(graph.nodes)[: generator.integers(0, graph.nodes + 1)].astype(np.int32)
    places = np.full(graph.nodes, -1, np.int32)
    places[rows] = np.arange(len(rows))
    lists = graph.source.incoming
    taken = take_within(lists, rows, places, threads)
    counts = np.ones(len(lists.neighbours), np.int32)
    count_within(lists, rows, places, counts, threads)
    assert (np.flatnonzero(counts == 2) == np.sort(taken.entry)).all()
    assert counts.sum() == len(counts) + len(taken.entry)
    for i, row in enumerate(rows.tolist()):
        expected = [e for e, (u, v) in enumerate(graph.pairs.tolist()) if v == row and places[u] >= 0]
        mine = slice(taken.offsets[i], taken.offsets[i + 1])
        assert lists.edge[taken.entry[mine]].tolist() == expected
        assert taken.neighbours[mine].tolist() == places[graph.pairs[expected, 0]].tolist()
