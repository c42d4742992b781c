from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.core.keyed import draw_below, stream_key
from starling.kernels.csr import Csr
from starling.kernels.walks import random_walks
from tests.plan.sources import Drawn, graphs


def test_by_hand() -> None:
    """A ring has one way to go; a node without in-edges is the end."""
    ring = Csr(np.arange(4), np.array([1, 2, 0], np.int32), np.arange(3, dtype=np.int32))
    walks = random_walks(ring, np.array([0, 2], np.int32), 4, stream_key(0, "walk"))
    assert walks.tolist() == [[0, 1, 2, 0, 1], [2, 0, 1, 2, 0]]
    ending = Csr(np.array([0, 1, 1]), np.array([1], np.int32), np.zeros(1, np.int32))
    assert random_walks(ending, np.array([0], np.int32), 2, stream_key(0, "walk")).tolist() == [[0, 1, 1]]


@given(graphs, st.integers(0, 4), st.integers(0, 1000), st.sampled_from([1, 4]))
def test_as_the_slow_twin(graph: Drawn, length: int, seed: int, threads: int) -> None:
    lists, key = graph.source.incoming, stream_key(seed, "walk")
    roots = np.random.default_rng(seed).integers(0, graph.nodes, 10, dtype=np.int32)
    walks = random_walks(lists, roots, length, key, threads)
    for i, root in enumerate(roots.tolist()):
        row, expected = root, [root]
        for step in range(length):
            mine = lists.neighbours[lists.offsets[row] : lists.offsets[row + 1]].tolist()
            row = mine[draw_below(key, i, step, len(mine))] if mine else row
            expected.append(row)
        assert walks[i].tolist() == expected
