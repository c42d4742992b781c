"""How a graph falls apart: degrees, copies of a random deal, and what is assumed of a better one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.plan.expected_sizes import degrees_of
from starling.plan.forecast.cut import assumed_cut, copies_ratio, measured_cut, thinned, whole
from starling.plan.forecast.degrees import assumed, counted, hub_balance, random_copies
from starling.plan.forecast.facts import GraphFacts, facts_of_numbers
from starling.stream.edges import EdgesInMemory
from tests.support.tiny import TINY, streams


def numbers(nodes: int = 1000, edges: int = 8000) -> GraphFacts:
    return facts_of_numbers(nodes, edges, 16, classes=4, train=nodes // 2)


@given(streams())
def test_degrees_are_counted_as_they_stand(edges: EdgesInMemory) -> None:
    found = counted(edges)
    assert (found.nodes, found.edges) == (edges.nodes, edges.edges)
    pairs = np.concatenate([np.empty((0, 2), int), *(block.pairs for block in edges.blocks())])
    outs = np.bincount(pairs[:, 0], minlength=edges.nodes)
    assert float(found.count @ found.outgoing**2) == (outs**2).sum()


def test_copies_of_a_random_deal_by_hand() -> None:
    # two parts: a node with one out-edge is copied with chance 1/2, one with two with chance 3/4
    degrees = degrees_of(np.array([1, 1, 1]), np.array([1, 2, 0]))
    assert random_copies(degrees, 2) == pytest.approx(0.5 + 0.75)
    assert random_copies(degrees, 1) == 0


def test_copies_of_a_random_deal_are_those_of_many() -> None:
    draw = np.random.default_rng(0)
    pairs = draw.integers(0, 300, (1500, 2))
    found = []
    for _ in range(40):
        owner = draw.integers(0, 4, 300)
        outside = owner[pairs[:, 0]] != owner[pairs[:, 1]]
        found.append(len(np.unique(pairs[outside, 0] * 4 + owner[pairs[outside, 1]])))
    degrees = degrees_of(np.bincount(pairs[:, 1], minlength=300), np.bincount(pairs[:, 0], minlength=300))
    assert random_copies(degrees, 4) == pytest.approx(np.mean(found), rel=0.03)


def test_the_part_with_all_hubs() -> None:
    degrees = degrees_of(np.array([6, 1, 1, 0]), np.array([2, 2, 2, 2]))
    assert hub_balance(degrees, 2) == pytest.approx((6 + 1) / 4)
    assert hub_balance(degrees, 1) == 1


@given(st.integers(2, 64), st.integers(100, 10_000), st.integers(0, 100_000))
def test_what_is_safe_is_never_less_than_what_is_likely(shares: int, nodes: int, edges: int) -> None:
    facts = numbers(nodes, min(edges, nodes * nodes))
    cut = assumed_cut(facts, shares)
    assert cut.safe.nodes >= nodes / shares
    for name in ("nodes", "halo", "edges", "copies"):
        assert getattr(cut.safe, name) >= getattr(cut.likely, name)
    assert cut.likely.halo <= nodes


def test_a_graph_is_cut_on_trial() -> None:
    edges = TINY["joined cliques"]
    cut = measured_cut(edges, 2, seed=0).likely
    assert cut.exact
    assert cut.nodes == 5
    assert cut.copies == 2, "the ends of the one edge between the cliques"
    assert cut.edge_cut == pytest.approx(2 / 42)
    facts = numbers(10, 42)
    assert 0 < copies_ratio(facts, cut) < 1


def test_no_cut() -> None:
    cut = whole(numbers()).likely
    assert (cut.nodes, cut.halo, cut.edges, cut.copies) == (1000, 0, 8000, 0)
    assert assumed_cut(numbers(), 1).safe == cut


def test_a_thin_boundary_has_fewer_copies() -> None:
    cut = assumed_cut(numbers(), 4).likely
    assert thinned(cut, 0.1).copies == pytest.approx(0.1 * cut.copies)
    assert thinned(cut, 0.1).nodes == cut.nodes


def test_assumed_degrees_have_their_mean_and_hubs() -> None:
    degrees = assumed(1000, 9000)
    assert degrees.nodes == pytest.approx(1000)
    assert degrees.edges == pytest.approx(9000)
    of_neighbour = float(degrees.count @ degrees.incoming**2) / degrees.edges
    assert 2 < of_neighbour / 9 < 3.5
