"""One replica of each node becomes its owner."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.core.assignment import Assignment
from starling.partition.contract import PartitionTask
from starling.partition.ownership import SLACK, choose_owners, to_edge_cut
from starling.stream.edges import EdgesInMemory
from tests.support.tiny import directed, stored, streams


def counts_of(edges: EdgesInMemory, edge_part: list[int], parts: int) -> list[list[int]]:
    counts = [[0] * parts for _ in range(edges.nodes)]
    for (u, v), part in zip(stored(edges), edge_part, strict=True):
        for end in {u, v}:
            counts[end][part] += 1
    return counts


def twin(edges: EdgesInMemory, edge_part: list[int], parts: int) -> list[int]:
    """Most edges among replicas with room, else the least loaded replica; nodes without edges last."""
    owner, load = [-1] * edges.nodes, [0] * parts
    room = math.ceil((1 + SLACK) * edges.nodes / parts)
    for v, counts in enumerate(counts_of(edges, edge_part, parts)):
        replicas = [q for q in range(parts) if counts[q]]
        roomy = [q for q in replicas if load[q] < room]
        if roomy:
            owner[v] = min(roomy, key=lambda q: (-counts[q], load[q], q))
        elif replicas:
            owner[v] = min(replicas, key=lambda q: (load[q], q))
        if replicas:
            load[owner[v]] += 1
    for v in range(edges.nodes):
        if owner[v] < 0:
            owner[v] = load.index(min(load))
            load[owner[v]] += 1
    return owner


@given(streams(), st.integers(1, 5), st.data())
def test_the_replica_with_most_edges_owns(edges: EdgesInMemory, parts: int, data: st.DataObject) -> None:
    part = data.draw(st.lists(st.integers(0, parts - 1), min_size=edges.edges, max_size=edges.edges))
    task = PartitionTask(edges, parts)
    owner, passes = choose_owners(task, np.array(part, np.uint16), "most-edges")
    assert owner.tolist() == twin(edges, part, parts)
    assert passes == 1
    tight = PartitionTask(edges, parts, memory=2 * 4 * parts * 3)  # room for the counts of three nodes at a time
    again, passes = choose_owners(tight, np.array(part, np.uint16), "most-edges")
    assert again.tolist() == owner.tolist()
    assert passes == math.ceil(edges.nodes / 3)


def test_by_hand() -> None:
    """Four nodes, two parts, so at most ⌈1.05 × 4 / 2⌉ = 3 to a part. 1 has two of its three edges in part 1; 0 has one in each
    part, and takes part 0, both being empty; 2 has both in part 1; 3 has none and goes to the part with fewer.
    """
    edges = directed([(0, 1), (1, 0), (2, 1), (2, 2)], 4)
    owner, _ = choose_owners(PartitionTask(edges, 2), np.array([0, 1, 1, 1], np.uint16), "most-edges")
    assert owner.tolist() == [0, 1, 1, 0]


def test_random_replicas_are_all_chosen_and_nothing_else() -> None:
    star = directed([(0, leaf) for leaf in range(1, 9)], 9)
    part = np.array([0, 1, 2, 0, 1, 2, 0, 1], np.uint16)  # of five parts, two have no edge
    hubs = {int(choose_owners(PartitionTask(star, 5, seed), part, "random")[0][0]) for seed in range(40)}
    assert hubs == {0, 1, 2}
    owner, _ = choose_owners(PartitionTask(star, 5), part, "random")
    assert owner[1:].tolist() == part.tolist()


def test_an_edge_cut_keeps_owners_and_forgets_edges() -> None:
    cut = Assignment("vertex-cut", 2, np.array([0, 1], np.int32), np.array([1], np.uint16), passes=3, notes={"a": 1})
    edge_cut = to_edge_cut(cut)
    assert (edge_cut.kind, edge_cut.edge_part, edge_cut.passes, edge_cut.notes) == ("edge-cut", None, 3, {"a": 1})
    assert edge_cut.owner is cut.owner
