"""Halos counted without building them are those that the shards of the same cut have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.assignment import Assignment
from starling.partition.halo_hops import sizes_with_hops
from starling.stream.edges import EdgesInMemory


def slow_sizes(pairs: list[tuple[int, int]], owner: list[int], parts: int, hops: int) -> tuple[list[int], list[int]]:
    halo, edges = [], []
    for part in range(parts):
        held = {node for node, at in enumerate(owner) if at == part}
        owned = len(held)
        for hop in range(max(1, hops)):
            rows = set(held)
            if hop < hops:
                held |= {u for u, v in pairs if v in rows}
        halo.append(len(held) - owned)
        edges.append(sum(v in rows for _, v in pairs))
    return halo, edges


def test_a_path_by_hand() -> None:
    edges = EdgesInMemory(np.array([[0, 1], [1, 2], [2, 3], [3, 4]]), 5, directed=True)
    cut = Assignment("edge-cut", 2, np.array([0, 0, 0, 1, 1], np.int32))
    assert sizes_with_hops(edges, cut, 0).halo == (0, 0)
    assert (sizes_with_hops(edges, cut, 1).halo, sizes_with_hops(edges, cut, 1).edges) == ((0, 1), (2, 2))
    assert (sizes_with_hops(edges, cut, 3).halo, sizes_with_hops(edges, cut, 3).edges) == ((0, 3), (2, 4))


@pytest.mark.parametrize("hops", [0, 1, 2, 3])
@given(pairs=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20), seed=st.integers(0, 99))
def test_any_cut(hops: int, pairs: list[tuple[int, int]], seed: int) -> None:
    owner = np.random.default_rng(seed).integers(0, 3, 8).astype(np.int32)
    edges = EdgesInMemory(np.array(pairs, np.int64).reshape(-1, 2), 8, directed=True)
    found = sizes_with_hops(edges, Assignment("edge-cut", 3, owner), hops)
    assert (list(found.halo), list(found.edges)) == slow_sizes(pairs, owner.tolist(), 3, hops)
