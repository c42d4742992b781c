"""Communities stay whole, are packed evenly, and are the locality of their nodes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from starling.partition.contract import PartitionTask
from starling.partition.registry import make_method
from tests.support.tiny import TINY, clique, undirected

CLIQUES = undirected([*clique(*range(6)), *clique(6, 7, 8, 9), *clique(10, 11, 12), *clique(13, 14, 15), (5, 6), (9, 10)], 17)


@pytest.mark.parametrize("name", ["louvain", "leiden"])
def test_communities_are_packed_whole(name: str) -> None:
    """Cliques of 6, 4, 3, 3 and a node alone into two parts: 6 | 4, then 3 to the four, then 3 and 1 … 9 and 8 nodes."""
    assignment = make_method(name).assign(PartitionTask(CLIQUES, 2))
    assert assignment.locality is not None
    groups = [set(np.flatnonzero(assignment.locality == c).tolist()) for c in range(int(assignment.locality.max()) + 1)]
    expected = [set(range(6)), {6, 7, 8, 9}, {10, 11, 12}, {13, 14, 15}, {16}]
    assert sorted(map(sorted, groups)) == sorted(map(sorted, expected))
    assert all(len(set(assignment.owner[list(group)].tolist())) == 1 for group in groups)
    assert sorted(np.bincount(assignment.owner).tolist()) == [8, 9]
    assert assignment.notes == {"communities": 5, "largest_community": 6}


@pytest.mark.parametrize("name", ["louvain", "leiden"])
def test_loads_are_packed_instead_of_nodes(name: str) -> None:
    load = np.where(np.arange(17) < 6, 1, 100)
    owner = make_method(name).assign(PartitionTask(CLIQUES, 2, node_load=load)).owner
    held = np.bincount(owner, load)
    assert held.tolist() in ([606, 500], [600, 506], [506, 600], [500, 606])


@pytest.mark.parametrize("name", ["louvain", "leiden"])
def test_resolution_makes_communities_smaller(name: str) -> None:
    coarse = make_method(name, {"resolution": 0.01}).assign(PartitionTask(TINY["path"], 2)).notes["communities"]
    fine = make_method(name, {"resolution": 5}).assign(PartitionTask(TINY["path"], 2)).notes["communities"]
    assert isinstance(coarse, int)
    assert isinstance(fine, int)
    assert coarse < fine


def test_the_process_wide_generator_is_left_alone() -> None:
    random.seed(7)
    expected = random.random()
    random.seed(7)
    make_method("leiden").assign(PartitionTask(CLIQUES, 2))
    assert random.random() == expected
