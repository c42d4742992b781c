"""Sub-parts cut few of the edges inside parts, and groups that belong together stay so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.partition.nearby import inner_ties
from starling.partition.nearby import number_sub_parts
from starling.stream.edges import EdgesInMemory

BLOCKS, SIZE = 8, 100


def block_graph() -> tuple[EdgesInMemory, np.ndarray]:
    """Eight blocks of 100 nodes, randomly numbered: 4,000 edges inside blocks, 400 between any two; and the block of each."""
    rng = np.random.default_rng(3)
    block = rng.permutation(np.repeat(np.arange(BLOCKS), SIZE))
    members = [np.flatnonzero(block == b) for b in range(BLOCKS)]
    inside = [rng.choice(members[b], (500, 2)) for b in range(BLOCKS)]
    across = rng.integers(0, BLOCKS * SIZE, (400, 2))
    pairs = rng.permutation(np.concatenate([*inside, across]))
    return EdgesInMemory(pairs.astype(np.int32), BLOCKS * SIZE, directed=True), block


@pytest.mark.parametrize("memory", [1 << 30, 1])
@pytest.mark.parametrize("whole", [1, 4])
def test_sub_parts_of_a_randomly_numbered_graph_cut_far_fewer_edges_than_random(memory: int, whole: int) -> None:
    edges, block = block_graph()
    owner = (block // 4).astype(np.int32)  # two parts of four blocks
    rank = np.empty(len(block), np.int32)
    rank[np.argsort(block, kind="stable")] = np.arange(len(block))
    mark = rank // whole if whole > 1 else np.arange(len(block), dtype=np.int32)
    locality = number_sub_parts(edges, owner, 2, mark.astype(np.int32), 2, memory=memory)
    sub = np.empty(len(block), int)
    for part in range(2):
        mine = np.flatnonzero(owner == part)
        sub[mine[np.argsort(locality[mine], kind="stable")]] = np.arange(len(mine)) // (len(mine) // 2)
    pairs = next(iter(edges.blocks())).pairs
    inner = pairs[owner[pairs[:, 0]] == owner[pairs[:, 1]]]
    assert (sub[inner[:, 0]] != sub[inner[:, 1]]).mean() < 0.1  # at random, half of them


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=30))
def test_nodes_of_a_part_with_one_mark_stay_together_and_in_order(nodes: list[tuple[int, int]]) -> None:
    owner, mark = (np.array(column, np.int32) for column in zip(*nodes, strict=True))
    edges = EdgesInMemory(np.zeros((0, 2), np.int32), len(nodes), directed=True)
    locality = number_sub_parts(edges, owner, 3, mark, 2)
    assert locality.tolist() == [sorted(set(nodes)).index(node) for node in nodes]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20), st.integers(0, 9))
def test_ties_are_those_between_groups_of_a_part(pairs: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    owner, group = rng.integers(0, 3, 6).astype(np.int32), rng.integers(0, 4, 6).astype(np.int32)
    array, ties = np.array(pairs, np.int32).reshape(-1, 2), np.empty((len(pairs), 2), np.int32)
    count = inner_ties(array, 0, owner, group, 1, 3, np.ones(3), np.uint64(1), ties)
    wanted = [[group[u], group[v]] for u, v in pairs if owner[u] == owner[v] and 1 <= owner[u] < 3 and group[u] != group[v]]
    assert ties[:count].tolist() == wanted
