"""CM-GCN's equations on numbers worked out by hand, C(B) against a plain search, and submodularity on random graphs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.kernels.csr import Csr, csr_from_pairs
from starling.plan.calibration import Point, Rates
from starling.plan.cost import PAPER, BatchCosts, Constants, GcnCost, constants_of, gcn_widths

PLAIN = Constants(alpha=1.0, beta=lambda numbers: 10.0, gamma=100.0, eta=1000.0, lam=10000.0)
COST = GcnCost((2, 3, 5), PLAIN)


@pytest.mark.parametrize(
    ("equation", "layer", "expected"),
    [
        ("forward", 0, 0.0),
        ("forward", 1, 4 * 2 + 10 * 3 * 2 + 100 * 3),
        ("forward", 2, 4 * 3 + 10 * 5 * 3 + 100 * 5),
        ("gradient", 0, 0.0),
        ("gradient", 1, 4 * 3 + (1000 + 10) * 3 * 2),
        ("gradient", 2, 10000 * 5 + (1000 + 10) * 5 * 3),
        ("backward", 0, 0.0),
        ("backward", 1, 4 * 3 + (10 + 1000) * 3 * 2 + 1000 * 3),
        ("backward", 2, (10000 + 1000) * 5 + (20 + 1000) * 5 * 3),
    ],
)
def test_equations_6_to_12_by_hand(equation: str, layer: int, expected: float) -> None:
    assert getattr(COST, equation)(4, layer) == expected


def test_equation_11_and_the_cost_of_a_node() -> None:
    assert COST.weights(1) == 1000 * 3 + 10 * 3 * 2
    assert COST.of_node(4) == sum(COST.forward(4, k) + COST.backward(4, k) for k in (1, 2))
    assert COST.backward(4, 2) == COST.gradient(4, 2) + COST.weights(2), "in the last layer Equation 12 is 8 + 11"


def test_hops_are_layers_counted_from_the_end() -> None:
    degree = np.array([0, 4])
    by_hop = COST.by_hop(degree)
    assert by_hop[0].tolist() == [COST.of_layer(0, 2), COST.of_layer(4, 2)]
    assert by_hop[1].tolist() == [COST.of_layer(0, 1), COST.of_layer(4, 1)]
    np.testing.assert_allclose(COST.by_distance(degree), [by_hop.sum(0), by_hop[1]])
    np.testing.assert_allclose(COST.by_distance(degree)[0], COST.of_node(degree))


def test_a_batch_by_hand() -> None:
    # 0 hears from 1, 1 from 2, 2 from nobody: a batch of node 0 computes 0 in layers 1 and 2, and 1 in layer 1
    lists = csr_from_pairs(np.array([[1, 0], [2, 1]], np.int32), 3)
    costs = BatchCosts(lists, COST)
    expected = COST.of_layer(1, 2) + COST.of_layer(1, 1) + COST.of_layer(1, 1)
    assert costs.of_batch(np.array([0])) == pytest.approx(expected)
    # with node 1 in the same batch, 1 is in layer 2 as well, and 2 (no neighbours) in layer 1
    together = expected + COST.of_layer(1, 2) + COST.of_layer(0, 1)
    assert costs.of_batch(np.array([0, 1])) == pytest.approx(together)
    assert costs.of_epoch(np.array([0, 0, -1], np.int32)) == pytest.approx(together)
    apart = costs.of_batches(np.array([0, 1, -1], np.int32))
    assert apart.tolist() == pytest.approx([expected, costs.of_batch(np.array([1]))])


def test_papers_constants_know_small_matrices() -> None:
    assert PAPER.beta(1433 * 256) == 8e-9
    assert PAPER.beta(32 * 7) == 5.2e-8


def test_measured_constants_take_betas_between_sizes() -> None:
    points = (Point(at=10, seconds=1e-9), Point(at=1000, seconds=1e-11))
    rates = Rates(
        threads=1,
        alpha=1e-9,
        beta=points,
        narrow=points,
        gamma=2e-9,
        eta=3e-9,
        lam=4e-9,
        spmm=points,
        edge=1e-9,
        row=1e-9,
        softmax=1e-9,
        transpose=1e-9,
        plan=1e-9,
        read=1e-9,
        memory_bandwidth=1e9,
        layer=1e-4,
        attention=1e-4,
        step=1e-4,
    )
    constants = constants_of(rates)
    assert constants.beta(100) == pytest.approx(1e-10), "the middle of the logarithms"
    assert (constants.alpha, constants.gamma, constants.eta, constants.lam) == (1e-9, 2e-9, 3e-9, 4e-9)


def test_widths_of_a_stack() -> None:
    assert gcn_widths(1433, 256, 7, 3) == (1433, 256, 256, 7)
    assert gcn_widths(5, 256, 7, 1) == (5, 7)
    with pytest.raises(InputError, match="Expected the widths"):
        GcnCost((5,))


def plain_cost(lists: Csr, cost: GcnCost, batch: set[int]) -> float:
    """C(B) as Equation 13 says it: hop by hop, node by node."""
    total, within = 0.0, set(batch)
    for hop in range(cost.layers):
        total += sum(cost.of_layer(int(lists.offsets[v + 1] - lists.offsets[v]), cost.layers - hop) for v in within)
        within |= {int(u) for v in within for u in lists.neighbours[lists.offsets[v] : lists.offsets[v + 1]]}
    return total


@st.composite
def graphs(draw: st.DrawFn) -> Csr:
    nodes = draw(st.integers(2, 14))
    node = st.integers(0, nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=40))
    return csr_from_pairs(np.array(pairs, np.int32).reshape(-1, 2), nodes)


@given(graphs(), st.integers(1, 4), st.data())
def test_the_kernel_finds_what_a_plain_search_finds(lists: Csr, layers: int, data: st.DataObject) -> None:
    cost = GcnCost(gcn_widths(7, 5, 3, layers))
    batch = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=lists.rows, max_size=lists.rows)), np.int32)
    found = BatchCosts(lists, cost).of_batches(batch)
    for number, value in enumerate(found):
        assert value == pytest.approx(plain_cost(lists, cost, set(np.flatnonzero(batch == number).tolist())))


@given(graphs(), st.integers(1, 4), st.data())
def test_costs_of_batches_are_submodular_and_grow(lists: Csr, layers: int, data: st.DataObject) -> None:
    costs = BatchCosts(lists, GcnCost(gcn_widths(7, 5, 3, layers)))
    some = st.sets(st.integers(0, lists.rows - 1))
    a, b = data.draw(some), data.draw(some)
    sets = {"a": a, "b": b, "or": a | b, "and": a & b}
    c = {name: costs.of_batch(np.array(sorted(nodes), np.int64)) for name, nodes in sets.items()}
    assert c["a"] + c["b"] >= (c["or"] + c["and"]) * (1 - 1e-12)
    assert c["or"] >= c["a"] >= c["and"]
