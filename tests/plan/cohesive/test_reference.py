"""The paper's algorithms against brute force: two batches are the best two, more are within the promised factor."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.kernels.csr import csr_from_pairs
from starling.plan.cohesive.reference import cohesive_batches, cost_of_sets, split_in_two
from starling.plan.cost import BatchCosts, GcnCost, gcn_widths


def costs_of(pairs: list[tuple[int, int]], nodes: int, layers: int = 2) -> BatchCosts:
    both = [end for u, v in pairs for end in ((u, v), (v, u))]
    lists = csr_from_pairs(np.array(both, np.int32).reshape(-1, 2), nodes)
    return BatchCosts(lists, GcnCost(gcn_widths(8, 4, 3, layers)))


def best_split(costs: BatchCosts, nodes: range) -> float:
    cost, whole = cost_of_sets(costs), frozenset(nodes)
    halves = (
        frozenset((nodes[0], *rest)) for size in range(len(nodes) - 1) for rest in itertools.combinations(nodes[1:], size)
    )
    return min(cost(half) + cost(whole - half) for half in halves)


def best_batches(costs: BatchCosts, nodes: int, batches: int) -> float:
    """The least J over all partitions, by dynamic programming over sets: the batch of the lowest node left, and the rest."""
    cost = cost_of_sets(costs)
    of_mask = [cost(frozenset(v for v in range(nodes) if mask >> v & 1)) for mask in range(1 << nodes)]
    best = {0: 0.0}
    for _ in range(batches):
        grown: dict[int, float] = {}
        for mask, value in best.items():
            left = (1 << nodes) - 1 & ~mask
            if not left:
                continue
            lowest = left & -left
            sub = left
            while sub:
                if sub & lowest:
                    total = value + of_mask[sub]
                    if total < grown.get(mask | sub, np.inf):
                        grown[mask | sub] = total
                sub = sub - 1 & left
        best = grown
    return best[(1 << nodes) - 1]


@st.composite
def small_graphs(draw: st.DrawFn, most: int) -> tuple[int, list[tuple[int, int]]]:
    nodes = draw(st.integers(3, most))
    node = st.integers(0, nodes - 1)
    return nodes, draw(st.lists(st.tuples(node, node), max_size=2 * most))


@settings(max_examples=25)
@given(small_graphs(9), st.integers(1, 3), st.integers(0, 3))
def test_two_batches_are_the_best_two(graph: tuple[int, list[tuple[int, int]]], layers: int, seed: int) -> None:
    nodes, pairs = graph
    costs = costs_of(pairs, nodes, layers)
    cost = cost_of_sets(costs)
    left, right = split_in_two(cost, frozenset(range(nodes)), seed)
    assert left | right == frozenset(range(nodes))
    assert left
    assert right
    assert not left & right
    assert cost(left) + cost(right) == pytest.approx(best_split(costs, range(nodes)))


def test_two_batches_of_twelve_nodes() -> None:
    cycle = [(v, (v + 1) % 12) for v in range(12)]
    costs = costs_of([*cycle, (0, 6), (3, 9)], 12, 2)
    left, right = split_in_two(cost_of_sets(costs), frozenset(range(12)))
    assert costs.of_batch(np.array(sorted(left))) + costs.of_batch(np.array(sorted(right))) == pytest.approx(
        best_split(costs, range(12))
    )


@settings(max_examples=15)
@given(small_graphs(7), st.integers(2, 4))
def test_more_batches_are_within_the_promised_factor(graph: tuple[int, list[tuple[int, int]]], batches: int) -> None:
    nodes, pairs = graph
    batches = min(batches, nodes)
    costs = costs_of(pairs, nodes, 2)
    parts = cohesive_batches(costs, range(nodes), batches)
    assert len(parts) == batches
    assert sorted(v for part in parts for v in part) == list(range(nodes))
    total = sum(costs.of_batch(np.array(sorted(part))) for part in parts)
    least = best_batches(costs, nodes, batches)
    assert least * (1 - 1e-9) <= total <= (2 - 2 / batches) * least * (1 + 1e-9)


def test_two_cliques_are_two_batches() -> None:
    pairs = [*itertools.combinations(range(4), 2), *itertools.combinations(range(4, 8), 2)]
    parts = cohesive_batches(costs_of(pairs, 8), range(8), 2)
    assert sorted(map(sorted, parts)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_too_many_batches_are_refused() -> None:
    with pytest.raises(InputError, match="Expected between 1 and 3 batches"):
        cohesive_batches(costs_of([(0, 1)], 3), range(3), 4)
    with pytest.raises(InputError, match="Expected at least two nodes"):
        split_in_two(cost_of_sets(costs_of([(0, 1)], 3)), frozenset([1]))
