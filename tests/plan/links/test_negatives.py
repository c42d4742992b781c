"""Negatives: keyed by the edge, of the kind asked for, no known edge where that can be seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.core.keyed import stream_key
from starling.kernels.csr import csr_from_pairs
from starling.plan.links.local_nodes import PartRanges
from starling.plan.links.negatives import (
    DegreeWeights,
    NegativeSampler,
    check_possible,
    known_pairs,
)
from starling.plan.links.pairs import Contrast, SharedContrast, StepPairs, TargetEdges, ends_of, relations_of
from starling.plan.links.random_pairs import random_pairs
from tests.plan.sources import Drawn, draw_graph, graphs

KEY = stream_key(1, "test")


def targets_of(pairs: np.ndarray) -> TargetEdges:
    return TargetEdges(np.arange(len(pairs)), pairs[:, 0], pairs[:, 1], pairs[:, 1])


def sampler(drawn: Drawn, **changed: object) -> NegativeSampler:
    given = {"kind": "uniform", "count": 3, "nodes": drawn.nodes, "both_ends": False}
    known = known_pairs(csr_from_pairs(drawn.pairs, drawn.nodes), np.arange(drawn.nodes))
    return NegativeSampler(**given | changed, known=known)  # type: ignore[arg-type]


@given(graphs, st.booleans())
def test_a_replaced_source_makes_no_edge_unless_all_do(drawn: Drawn, both_ends: bool) -> None:
    edges = targets_of(drawn.pairs)
    made = sampler(drawn, both_ends=both_ends).draw(edges, KEY, turn=1)
    assert made.node.shape == (len(edges), 3)
    known = {(int(s), int(d)) for s, d in drawn.pairs}
    for i, slot in np.ndindex(made.node.shape):
        node, destination = int(made.node[i, slot]), int(edges.destination[i])
        assert 0 <= node < drawn.nodes
        assert made.at_source[i, slot] == (not both_ends or (i + slot + 1) % 2 == 0)
        free = [n for n in range(drawn.nodes) if (n, destination) not in known and n not in (destination, int(edges.source[i]))]
        if made.at_source[i, slot] and len(free) > drawn.nodes / 2:  # sixteen draws all but surely meet one of them
            assert node in free


def test_draws_depend_on_the_edge_alone() -> None:
    drawn = draw_graph(30, 80, 1)
    edges, how = targets_of(drawn.pairs), sampler(drawn)
    all_of_them, some = how.draw(edges, KEY), how.draw(edges[np.array([5, 70, 2])], KEY)
    np.testing.assert_array_equal(some.node, all_of_them.node[[5, 70, 2]])
    assert not np.array_equal(how.draw(edges, stream_key(2, "test")).node, all_of_them.node)


def test_uniform_and_degree_have_their_shares() -> None:
    """Node 0 … 3 with degrees 0, 1, 16, 81: weights 0, 1, 8, 27 of degree^0.75."""
    pairs = np.array([[4, 5]] * 4000, np.int32)
    drawn = Drawn(6, pairs, np.ones(len(pairs)))
    even = sampler(drawn, count=1).draw(targets_of(pairs), KEY).node[:, 0]
    assert set(even.tolist()) == {0, 1, 2, 3}
    np.testing.assert_allclose(np.bincount(even, minlength=4) / 4000, 0.25, atol=0.03)
    weights = DegreeWeights.of(np.array([0, 1, 16, 81, 0, 0]), np.array([16, 0, 0, 0, 0, 0]))
    np.testing.assert_allclose(np.diff(weights.source, prepend=0), [0, 1, 8, 27, 0, 0])
    found = sampler(drawn, count=1, kind="degree", by_degree=weights).draw(targets_of(pairs), KEY).node[:, 0]
    np.testing.assert_allclose(np.bincount(found, minlength=4) / 4000, np.array([0, 1, 8, 27]) / 36, atol=0.03)
    turns = sampler(drawn, count=2, kind="degree", both_ends=True, by_degree=weights).draw(targets_of(pairs), KEY)
    assert set(turns.node[~turns.at_source].tolist()) == {0}, "the one node with edges coming in"
    assert set(turns.node[turns.at_source].tolist()) == {1, 2, 3}


def test_in_batch_takes_the_same_end_of_other_targets() -> None:
    pairs = np.array([[0, 10], [1, 11], [2, 12], [3, 13]], np.int32)
    drawn, edges = Drawn(20, pairs, np.ones(4)), targets_of(pairs)
    made = sampler(drawn, kind="batch", count=8, both_ends=True).draw(edges, KEY, edges)
    for i, slot in np.ndindex(made.node.shape):
        others = {int(pair[0 if made.at_source[i, slot] else 1]) for k, pair in enumerate(pairs) if k != i}
        assert int(made.node[i, slot]) in others


def test_pairs_replace_both_ends() -> None:
    drawn = draw_graph(30, 100, 2)
    edges, how = targets_of(drawn.pairs), sampler(drawn, kind="pairs")
    made = how.draw(edges, KEY)
    assert made.other is not None
    assert (made.node != made.other).all()
    source, destination = ends_of(edges, made)
    np.testing.assert_array_equal(source[100:], made.node.reshape(-1))
    np.testing.assert_array_equal(destination[100:], made.other.reshape(-1))
    assert len(set(made.node.reshape(-1).tolist())) == len(set(made.other.reshape(-1).tolist())) == 30
    some = how.draw(edges[np.array([5, 70])], KEY)
    np.testing.assert_array_equal(some.node, made.node[[5, 70]])


def test_local_stays_in_the_part_of_the_end_that_stays() -> None:
    position_of_global = np.random.default_rng(0).permutation(30)
    global_of_position = np.argsort(position_of_global)
    parts = PartRanges(np.array([0, 4, 30]), position_of_global, global_of_position)
    drawn = draw_graph(30, 100, 2)
    edges = targets_of(drawn.pairs)
    made = sampler(drawn, kind="local", near=parts, both_ends=True).draw(edges, KEY)
    stays = np.where(made.at_source, edges.destination[:, None], edges.source[:, None])
    np.testing.assert_array_equal(global_of_position[made.node] < 4, global_of_position[stays] < 4)
    with pytest.raises(InputError, match="need a parts directory"):
        sampler(drawn, kind="local")


def test_complete_graphs_are_refused() -> None:
    pairs = np.array([(i, j) for i in range(5) for j in range(5) if i != j], np.int32)
    known = known_pairs(csr_from_pairs(np.concatenate([pairs, pairs, [[2, 2]]]), 5), np.arange(5))
    assert known.linked_to_all(np.arange(5), 5) == 5
    with pytest.raises(InputError, match="Every pair of the 5 nodes is an edge already"):
        check_possible(5, 5)
    one_short = known_pairs(csr_from_pairs(pairs[1:], 5), np.arange(5))
    assert one_short.linked_to_all(np.arange(5), 5) == 4
    check_possible(5, 4)


@given(graphs)
def test_known_pairs_are_found(drawn: Drawn) -> None:
    known = known_pairs(csr_from_pairs(drawn.pairs, drawn.nodes), np.arange(drawn.nodes))
    source, destination = (side.reshape(-1) for side in np.indices((drawn.nodes, drawn.nodes)))
    edges = {(int(s), int(d)) for s, d in drawn.pairs}
    expected = [(int(s), int(d)) in edges for s, d in zip(source, destination, strict=True)]
    assert known.holds(destination, source).tolist() == expected


@given(graphs, st.integers(1, 3))
def test_random_pairs_are_no_edges(drawn: Drawn, slots: int) -> None:
    edges = {(int(s), int(d)) for s, d in drawn.pairs}
    number = np.arange(7) * 3
    is_edge = lambda s, d: np.array([(int(a), int(b)) in edges for a, b in zip(s, d, strict=True)], np.bool_)  # noqa: E731
    draw = lambda number: random_pairs(number, slots, drawn.nodes, KEY, is_edge, lambda values: values)  # noqa: E731
    possible = drawn.nodes * (drawn.nodes - 1) - len({(s, d) for s, d in edges if s != d})
    if possible == 0:
        with pytest.raises(InputError, match=r"Nearly every pair of the .* nodes is an edge"):
            draw(number)
    if possible <= drawn.nodes**2 / 2:  # sooner or later 32 draws miss the few that are left
        return
    source, destination = draw(number)
    assert source.shape == destination.shape == (7, slots)
    found = list(zip(source.reshape(-1).tolist(), destination.reshape(-1).tolist(), strict=True))
    assert not edges & set(found)
    assert all(s != d for s, d in found)
    np.testing.assert_array_equal(draw(number[3:])[0], source[3:])


def test_ends_and_relations_stand_edge_first() -> None:
    edges = TargetEdges(*np.array([[7, 8], [0, 1], [2, 3], [2, 3]]), relation=np.array([5, 6]))
    contrast = Contrast(np.array([[10, 11], [12, 13]]), np.array([[True, False], [False, True]]))
    source, destination = ends_of(edges, contrast)
    assert source.tolist() == [0, 1, 10, 0, 1, 13]
    assert destination.tolist() == [2, 3, 2, 11, 12, 3]
    relation = relations_of(edges, 2)
    assert relation is not None
    assert relation.tolist() == [5, 6, 5, 5, 6, 6]


def test_shared_nodes_are_the_same_for_all_edges_of_a_step() -> None:
    """On any worker: they depend on the key alone, and each edge loses the end whose turn it is."""
    drawn = draw_graph(40, 60, 1)
    edges, how = targets_of(drawn.pairs), sampler(drawn, kind="shared", count=50, both_ends=True)
    made, some = how.draw(edges, KEY, turn=1), how.draw(edges[np.array([3, 4])], KEY, turn=1)
    assert made.node.shape == (len(edges), 0)
    assert made.shared is not None
    assert some.shared is not None
    np.testing.assert_array_equal(made.shared.node, some.shared.node)
    assert len(set(made.shared.node.tolist())) > 20
    assert made.shared.node.max() < 40
    np.testing.assert_array_equal(made.shared.at_source, np.arange(len(edges)) % 2 == 1)
    one_way = sampler(drawn, kind="shared").draw(edges, KEY).shared
    assert one_way is not None
    assert one_way.at_source.all()


@pytest.mark.parametrize("kind", ["uniform", "pairs", "shared"])
def test_the_end_that_stays_stands_against_itself_when_asked_for(kind: str) -> None:
    drawn = draw_graph(30, 40, 2)
    edges = targets_of(drawn.pairs)
    plain, more = (sampler(drawn, kind=kind, both_ends=True, itself=itself).draw(edges, KEY) for itself in (False, True))
    slots = plain.node.shape[1]
    assert more.node.shape[1] == slots + 1
    np.testing.assert_array_equal(more.node[:, :slots], plain.node)
    source, destination = (ends[len(edges) :].reshape(len(edges), -1)[:, -1] for ends in ends_of(edges, more))
    kept = np.where(np.arange(len(edges)) % 2 == 0, edges.destination, edges.source)
    np.testing.assert_array_equal(source, kept)
    np.testing.assert_array_equal(destination, kept)


def test_pairs_of_a_step_are_placed_by_hand() -> None:
    """Edges 0 → 10 and 1 → 11 by relations 4 and 5, one pair of its own each, nodes 7 and 10 shared; seeds are sorted."""
    edges = TargetEdges(np.array([0, 1]), np.array([0, 1]), np.array([10, 11]), np.array([10, 11]), np.array([4, 5]))
    shared = SharedContrast(np.array([7, 10]), np.array([True, False]))
    step = StepPairs(edges, Contrast(np.array([[3], [4]]), np.array([[True], [False]]), shared=shared))
    assert step.ends.tolist() == [0, 1, 3, 1, 10, 11, 10, 4, 7, 10]
    seeds, place = np.unique(step.ends, return_inverse=True)
    assert seeds.tolist() == [0, 1, 3, 4, 7, 10, 11]
    pairs = step.placed(place)
    assert pairs.edges == 2
    assert pairs.source.tolist() == [0, 1, 2, 1]
    assert pairs.destination.tolist() == [5, 6, 5, 3]
    assert pairs.relation is not None
    assert pairs.relation.tolist() == [4, 5, 4, 5]
    assert pairs.shared is not None
    assert pairs.shared.node.tolist() == [4, 5]
    assert pairs.shared.kept.tolist() == [5, 1]  # the source makes room, then the destination
    assert pairs.shared.replaced.tolist() == [0, 6]
    none = StepPairs(edges[:0], Contrast(np.empty((0, 0), np.int64), np.empty((0, 0), np.bool_), shared=shared))
    assert not len(none.ends)  # who has no targets asks for nothing
