"""Moves between batches: counts stay those of the batches, changes of J are exact, sizes stay within limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.keyed import permutation, stream_key
from starling.kernels.cohesive_moves import Lists, State, Units, make_state, move_units, state_bytes
from starling.kernels.csr import csr_from_pairs, transpose
from starling.plan.cost import BatchCosts, GcnCost, gcn_widths


def lists_of(pairs: np.ndarray, nodes: int, layers: int) -> tuple[Lists, BatchCosts]:
    incoming = csr_from_pairs(pairs.astype(np.int32).reshape(-1, 2), nodes)
    costs = BatchCosts(incoming, GcnCost(gcn_widths(9, 6, 3, layers)))
    turned = transpose(incoming, nodes)
    by_hop = costs.cost.by_hop(np.diff(incoming.offsets))
    return Lists(incoming.offsets, incoming.neighbours, turned.offsets, turned.neighbours, by_hop), costs


def singles(batch: np.ndarray) -> Units:
    targets = np.flatnonzero(batch >= 0)
    return Units(np.arange(len(targets) + 1), targets)


def plain_counts(lists: Lists, batch: np.ndarray, batches: int) -> np.ndarray:
    """How many rows of hop h − 1 need each node, by definition."""
    hops, nodes = lists.by_hop.shape
    counts = np.zeros((batches, hops - 1, nodes), np.int32)
    for b in range(batches):
        needed = set(np.flatnonzero(batch == b).tolist())
        for hop in range(hops - 1):
            for v in needed:
                counts[b, hop, v] += 1
                for u in lists.neighbours[lists.offsets[v] : lists.offsets[v + 1]]:
                    counts[b, hop, u] += 1
            needed = set(np.flatnonzero(counts[b, hop]).tolist())
    return counts


def test_counts_by_hand() -> None:
    # 0 hears from 1 and 2, 1 from 2; batch 0 is {0}, batch 1 is {1}; three layers, so two hops are counted
    lists, _ = lists_of(np.array([[1, 0], [2, 0], [2, 1]]), 3, 3)
    state = make_state(lists, np.array([0, 1, -1], np.int32), 2)
    assert state.counts[0].tolist() == [[1, 1, 1], [1, 2, 3]]
    assert state.counts[1].tolist() == [[0, 1, 1], [0, 1, 2]]
    assert state.sizes.tolist() == [1, 1]
    assert state_bytes(2, 3, 3) == state.counts.nbytes


def test_a_stray_target_goes_home_by_hand() -> None:
    # two triangles; node 5 belongs to the second but starts in the first batch, which has one too many
    triangles = [(u, v) for group in ((0, 1, 2), (3, 4, 5)) for u in group for v in group if u != v]
    lists, costs = lists_of(np.array(triangles), 6, 2)
    state = make_state(lists, np.array([0, 0, 0, 1, 1, 0], np.int32), 2)
    before = costs.of_epoch(state.batch)
    change, moved = move_units(lists, singles(state.batch), state, np.arange(6), 2, 4, stream_key(0, "t"), 0.0)
    assert state.batch.tolist() == [0, 0, 0, 1, 1, 1]
    assert moved == 1
    assert before + change == pytest.approx(costs.of_epoch(state.batch))


def test_two_targets_change_places_where_there_is_no_room() -> None:
    triangles = [(u, v) for group in ((0, 1, 2), (3, 4, 5)) for u in group for v in group if u != v]
    lists, _ = lists_of(np.array(triangles), 6, 2)
    state = make_state(lists, np.array([0, 0, 1, 0, 1, 1], np.int32), 2)
    _, moved = move_units(lists, singles(state.batch), state, np.arange(6), 3, 3, stream_key(0, "t"), 0.0)
    assert state.batch.tolist() == [0, 0, 0, 1, 1, 1]
    assert moved == 2


@st.composite
def searches(draw: st.DrawFn) -> tuple[np.ndarray, int, int, np.ndarray]:
    nodes = draw(st.integers(4, 30))
    node = st.integers(0, nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=90))
    batches = draw(st.integers(2, 4))
    batch = draw(st.lists(st.integers(-1, batches - 1), min_size=nodes, max_size=nodes))
    return np.array(pairs, np.int32).reshape(-1, 2), nodes, batches, np.array(batch, np.int32)


@settings(max_examples=60)
@given(searches(), st.integers(2, 4), st.sampled_from([0.0, 1e-6]), st.integers(0, 5))
def test_whatever_moves_the_books_are_right(
    given_graph: tuple[np.ndarray, int, int, np.ndarray], layers: int, heat: float, seed: int
) -> None:
    pairs, nodes, batches, batch = given_graph
    lists, costs = lists_of(pairs, nodes, layers)
    state = make_state(lists, batch, batches)
    np.testing.assert_array_equal(state.counts, plain_counts(lists, batch, batches))
    sizes = state.sizes.copy()
    low, high = int(sizes.min()), int(sizes.max())
    before = costs.of_epoch(batch)
    units = singles(batch)
    key = stream_key(seed, "t")
    change, moved = move_units(lists, units, state, permutation(key, len(units)), low, high, key, heat)
    np.testing.assert_array_equal(state.counts, plain_counts(lists, state.batch, batches))
    np.testing.assert_array_equal(state.sizes, np.bincount(state.batch[state.batch >= 0], minlength=batches))
    np.testing.assert_array_equal(state.batch < 0, batch < 0)
    assert state.sizes.min() >= low
    assert state.sizes.max() <= high
    assert before + change == pytest.approx(costs.of_epoch(state.batch))
    if heat == 0:
        assert change <= 1e-12
    assert (moved == 0) or not np.array_equal(state.batch, batch) or heat > 0
    again = make_state(lists, batch, batches)
    move_units(lists, units, again, permutation(key, len(units)), low, high, key, heat)
    np.testing.assert_array_equal(again.batch, state.batch)


def test_a_cluster_moves_as_one() -> None:
    # two groups of four; two of the second group sit in the first batch and would each alone rather stay where they are
    pairs = [(u, v) for group in ((0, 1, 2, 3), (4, 5, 6, 7)) for u in group for v in group if u != v]
    lists, costs = lists_of(np.array(pairs), 8, 3)
    batch = np.array([0, 0, 0, 0, 0, 0, 1, 1], np.int32)
    state: State = make_state(lists, batch, 2)
    units = Units(np.array([0, 4, 6, 8]), np.arange(8))
    change, moved = move_units(lists, units, state, np.arange(3), 2, 6, stream_key(0, "t"), 0.0)
    assert state.batch.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert moved == 1
    assert costs.of_epoch(batch) + change == pytest.approx(costs.of_epoch(state.batch))
