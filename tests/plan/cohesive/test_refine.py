from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.kernels.csr import csr_from_pairs
from starling.plan.cohesive.refine import Effort, balanced, limits, refine
from starling.plan.cost import BatchCosts, GcnCost, gcn_widths


def ring_of_cliques(cliques: int, size: int, layers: int = 2) -> BatchCosts:
    """Cliques in a ring, one edge from each to the next; nodes of a clique are not numbered side by side."""
    node = np.random.default_rng(0).permutation(cliques * size).reshape(cliques, size)
    pairs = [(a, b) for clique in node for a in clique for b in clique if a != b]
    pairs += [end for c in range(cliques) for end in ((node[c, 0], node[c - 1, 1]), (node[c - 1, 1], node[c, 0]))]
    lists = csr_from_pairs(np.array(pairs, np.int32), cliques * size)
    return BatchCosts(lists, GcnCost(gcn_widths(16, 8, 4, layers)))


def test_cliques_come_together_from_random_batches() -> None:
    costs = ring_of_cliques(6, 8)
    start = (np.arange(48) % 6).astype(np.int32)
    found = refine(costs, start, 6, tolerance=0.3, effort=Effort(warm_passes=30, cool_passes=10, warmth=0.3), seed=1)
    assert costs.of_epoch(found) < 0.8 * costs.of_epoch(start)
    assert np.bincount(found).tolist() == np.clip(np.bincount(found), 5, 11).tolist()
    again = refine(costs, start, 6, tolerance=0.3, effort=Effort(warm_passes=30, cool_passes=10, warmth=0.3), seed=1)
    np.testing.assert_array_equal(found, again)


@settings(max_examples=25)
@given(st.integers(2, 5), st.integers(1, 4), st.sampled_from([0.0, 0.1, 0.5]), st.integers(0, 100))
def test_never_worse_and_within_limits(batches: int, layers: int, tolerance: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    costs = ring_of_cliques(3, 4, layers)
    batch = np.where(draw.random(12) < 0.8, draw.integers(0, batches, 12), -1).astype(np.int32)
    batch[:batches] = np.arange(batches)
    found = refine(costs, batch, batches, tolerance=tolerance, clusters=np.arange(12) // 3, seed=seed)
    np.testing.assert_array_equal(found < 0, batch < 0)
    bounds = limits(int((batch >= 0).sum()), batches, tolerance)
    sizes = np.bincount(found[found >= 0], minlength=batches)
    assert bounds.low <= sizes.min()
    assert sizes.max() <= bounds.high
    start = balanced(batch, batches, bounds, seed)
    assert costs.of_epoch(found) <= costs.of_epoch(start) * (1 + 1e-12)


def test_limits_by_hand() -> None:
    assert (limits(100, 10, 0.05).low, limits(100, 10, 0.05).high) == (9, 11)
    assert (limits(7, 3, 0.0).low, limits(7, 3, 0.0).high) == (2, 3)
    assert limits(3, 3, 1.0).low == 1


def test_batches_of_any_size_are_evened_out() -> None:
    batch = np.array([0] * 9 + [2], np.int32)
    found = balanced(batch, 3, limits(10, 3, 0.0), 0)
    assert sorted(np.bincount(found).tolist()) == [3, 3, 4]


def test_memory_is_refused_before_it_is_taken() -> None:
    with pytest.raises(InputError, match=r"needs .*, more than 16 B\. Pass fewer --batches"):
        refine(ring_of_cliques(3, 4), np.zeros(12, np.int32), 3, memory=16)
