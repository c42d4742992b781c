"""Measures against values counted by hand; the contract test compares them with plain sets on every method."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.assignment import Assignment
from starling.partition.quality import measure, measure_random
from starling.stream.edges import EdgesInMemory
from tests.support.tiny import TINY, directed, stored, streams


def cut(parts: int, owner: list[int], edge_part: list[int] | None = None) -> Assignment:
    placed = None if edge_part is None else np.array(edge_part, np.uint16)
    return Assignment("edge-cut" if placed is None else "vertex-cut", parts, np.array(owner, np.int32), placed)


def test_joined_cliques_by_hand() -> None:
    """Two cliques of five joined by (4, 5), a part each: 42 stored edges, 2 of them cut; a part holds 5 + 1 rows, 21 edges."""
    quality = measure(TINY["joined cliques"], cut(2, [0] * 5 + [1] * 5), train=np.arange(10) < 4)
    assert quality.halo_rows == 2
    assert quality.replication_factor == 1.2
    assert quality.halo_share == pytest.approx(2 / 12)
    assert quality.edge_cut == pytest.approx(2 / 42)
    assert (quality.node_balance, quality.edge_balance, quality.train_balance) == (1, 1, 2)
    assert quality.bytes_per_layer(16) == 2 * 16 * 4


def test_star_by_hand() -> None:
    """Hub and leaves 1 and 2 in part 0, the others in part 1: part 0 needs leaves 3 to 8, part 1 needs the hub."""
    quality = measure(TINY["star"], cut(3, [0, 0, 0, 1, 1, 1, 1, 1, 1]))
    assert quality.halo_rows == 7
    assert quality.edge_cut == 12 / 16
    assert quality.node_balance == 6 * 3 / 9
    assert quality.edge_balance == 10 * 3 / 16  # the hub's 8 in-edges and one to each of leaves 1 and 2
    assert quality.train_balance is None


def test_only_sources_are_halo_in_a_directed_graph() -> None:
    quality = measure(directed([(0, 1), (0, 1)], 2), cut(2, [0, 1]))
    assert quality.halo_rows == 1
    assert quality.edge_cut == 1


def test_a_vertex_cut_counts_masters_and_mirrors() -> None:
    """Edges (0, 1) in part 0, (1, 2) in part 1, masters 0 0 1: node 1 has a mirror in part 1."""
    quality = measure(directed([(0, 1), (1, 2)], 3), cut(2, [0, 0, 1], [0, 1]))
    assert quality.halo_rows == 1
    assert quality.edge_balance == 1
    assert quality.edge_cut == 0.5


def test_nothing_to_measure() -> None:
    quality = measure(TINY["no nodes"], cut(4, []), train=np.zeros(0, bool))
    assert (quality.replication_factor, quality.halo_share, quality.edge_cut, quality.train_balance) == (1, 0, 0, 1)


@given(streams(), st.data())
def test_many_parts_in_several_passes_give_the_same(edges: EdgesInMemory, data: st.DataObject) -> None:
    parts = data.draw(st.sampled_from([1, 64, 65, 150, 1000]))
    owner = data.draw(st.lists(st.integers(0, parts - 1), min_size=edges.nodes, max_size=edges.nodes))
    placed = data.draw(st.one_of(st.none(), st.lists(st.integers(0, parts - 1), min_size=edges.edges, max_size=edges.edges)))
    whole = measure(edges, cut(parts, owner, placed))
    assert whole == measure(edges, cut(parts, owner, placed), memory=1)
    copies = {(node, part) for node, part in enumerate(owner)}
    for i, (u, v) in enumerate(stored(edges)):
        copies |= {(u, owner[v])} if placed is None else {(u, placed[i]), (v, placed[i])}
    assert whole.halo_rows == len(copies) - edges.nodes


def test_random_is_what_to_compare_with() -> None:
    quality = measure_random(TINY["joined cliques"], 2)
    assert quality.node_balance == 1
    assert quality.replication_factor > 1.2
