"""Row work in blocks: the numbers and gradients of the whole, in any order of blocks, and nothing kept that is not needed."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from starling.engine.hybrid.computing.block_work import BlockWork
from starling.nn.row_work import Node, NodeLayout, RowWork

BOUNDS = np.array([0, 3, 4, 10])
APART = NodeLayout(own=1)
"""Destinations keep other rows than those that are summed."""


class Net(nn.Module):
    """Two matrices of numbers that anybody can check."""

    def __init__(self) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(1)
        self.one = nn.Parameter(torch.randn(4, 4, generator=draw, dtype=torch.float64))
        self.two = nn.Parameter(torch.randn(4, 2, generator=draw, dtype=torch.float64))
        self.still = nn.Parameter(torch.ones(4, dtype=torch.float64), requires_grad=False)

    def run(self, first: int, node: Node, aggregate: Tensor) -> Node:
        """In place too; rows know their numbers."""
        number = torch.arange(first, first + len(aggregate), dtype=torch.float64)[:, None]
        h = torch.tanh_(aggregate.add_(node.own @ self.one) * self.still) * (1 + number)
        return Node(h @ self.two, h, multiplied=True)


def made(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums, own rows, and gradients of both results."""
    draw = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(10, width, generator=draw, dtype=torch.float64) for width in (4, 4, 2, 4))  # type: ignore[return-value]


def in_blocks(net: Net, forward: Sequence[int], backward: Sequence[int]) -> list[Tensor]:
    sums, own, rows_gradient, own_gradient = made(2)
    work = BlockWork(RowWork(net.run, (net,)), BOUNDS, APART, recorded=True)
    work.begin((sums, own), sum_learns=True, learns={1}, weights=(net.one, net.two))
    for block in forward:
        work.run(block, sums)
    saved = work.put_away()
    rows, apart = work.take_results()
    assert work.made == NodeLayout(own=1, multiplied=True)
    work.begin_backward(saved, (rows_gradient, own_gradient), sums)
    for block in backward:
        work.run_backward(block)
    found = [rows, apart, work.sum_gradient, work.kept_gradients[1]]
    one, two = work.end_backward([True, True])
    return [tensor for tensor in (*found, one, two) if tensor is not None]


def test_blocks_in_any_order_give_the_same_bits() -> None:
    net = Net()
    expected = in_blocks(net, range(3), range(3))
    assert len(expected) == 6
    for forward, backward in itertools.product(itertools.permutations(range(3)), repeat=2):
        for tensor, other in zip(in_blocks(net, forward, backward), expected, strict=True):
            assert torch.equal(tensor, other)


def test_blocks_are_the_whole_in_pieces() -> None:
    net = Net()
    sums, own, rows_gradient, own_gradient = (tensor.requires_grad_() for tensor in made(2))
    node = net.run(0, Node(own, own), sums * 1)
    torch.autograd.backward([node.rows, node.own], [rows_gradient.detach(), own_gradient.detach()])
    expected = [node.rows, node.own, sums.grad, own.grad, net.one.grad, net.two.grad]
    for found, value in zip(in_blocks(Net(), [2, 0, 1], [1, 2, 0]), expected, strict=True):
        torch.testing.assert_close(found, value)


def test_a_weight_that_nobody_told_of_is_an_error() -> None:
    net, work_of = Net(), nn.Linear(1, 1)
    work = BlockWork(RowWork(net.run, (work_of,)), BOUNDS, APART, recorded=True)
    work.begin(made(2)[:2], sum_learns=True, learns=set(), weights=tuple(work_of.parameters()))
    with pytest.raises(ValueError, match=r"row work uses a weight of shape \(4, [24]\) that is in none of its modules"):
        work.run(0, made(2)[0])


def test_what_learns_nothing_gets_no_gradient() -> None:
    net = Net()
    sums, own, rows_gradient, own_gradient = made(2)
    work = BlockWork(RowWork(net.run, (net,)), BOUNDS, APART, recorded=True)
    work.begin((sums, own), sum_learns=False, learns=set(), weights=(net.two,))
    for block in range(3):
        work.run(block, sums)
    saved = work.put_away()
    work.begin_backward(saved, (rows_gradient, own_gradient), sums)
    for block in range(3):
        work.run_backward(block)
    assert work.sum_gradient is None
    assert not work.kept_gradients
    one, two = work.end_backward([False, True])
    assert one is None
    assert two is not None


@pytest.mark.parametrize("backward", [True, False])
def test_nothing_waits_for_the_collector(backward: bool) -> None:
    """What a block has saved goes with its work, though autograd's memory is out of the collector's reach."""
    net, kept = Net(), list[weakref.ref[Any]]()
    sums, own, rows_gradient, own_gradient = made(2)
    gc.disable()
    try:
        work = BlockWork(RowWork(net.run, (net,)), BOUNDS, APART, recorded=True)
        work.begin((sums, own), sum_learns=True, learns={1}, weights=(net.one, net.two))
        for block in range(3):
            work.run(block, sums)
        saved = work.put_away()
        weights = {net.one.data_ptr(), net.two.data_ptr(), net.still.data_ptr()}
        kept = [weakref.ref(tensor) for tensor in saved if tensor.data_ptr() not in weights]
        assert kept
        if backward:
            work.begin_backward(saved, (rows_gradient, own_gradient), sums)
            for block in range(3):
                work.run_backward(block)
            work.end_backward([True, True])
        else:
            del work
        del saved
        assert [ref() for ref in kept] == [None] * len(kept)
    finally:
        gc.enable()


def test_a_result_that_is_saved_is_kept_once() -> None:
    """tanh saves what it gives; the whole holds it already."""

    def run(_first: int, node: Node, aggregate: Tensor) -> Node:
        h = torch.tanh(aggregate * node.own)
        return Node(h, h)

    sums, own, *_ = made(2)
    work = BlockWork(RowWork(run, ()), BOUNDS, APART, recorded=True)
    work.begin((sums, own), sum_learns=True, learns={1}, weights=())
    for block in range(3):
        work.run(block, sums)
    saved = work.put_away()
    (rows,) = work.take_results()
    places = {tensor.untyped_storage().data_ptr() for tensor in saved}
    assert places == {whole.untyped_storage().data_ptr() for whole in (sums, own, rows)}


@pytest.mark.parametrize("shown", [False, True])
def test_inputs_go_on_beside_rows(shown: bool) -> None:
    """A residual reads the input of the node before; the next one's is its own rows, or apart from them if others read it too."""
    draw = torch.Generator().manual_seed(7)
    weight = nn.Linear(4, 4, bias=False).double()

    def run(_first: int, node: Node, aggregate: Tensor) -> Node:
        assert node.input is not None
        h = torch.tanh(weight(aggregate) + node.own) + node.input * node.input
        return Node(h, h, input=h)

    sums, own, input_rows, *gradients = (torch.randn(10, 4, generator=draw, dtype=torch.float64) for _ in range(5))
    ends = [tensor.clone().requires_grad_() for tensor in (sums, own, input_rows)]
    whole = run(0, Node(ends[1], ends[1], input=ends[2]), ends[0] * 1)
    read = [whole.rows, whole.rows] if shown else [whole.rows]
    expected = torch.autograd.grad(read, (*ends, weight.weight), gradients[: len(read)])
    work = BlockWork(RowWork(run, (weight,), shows_input=shown), BOUNDS, NodeLayout(own=1, input=2), recorded=True)
    work.begin((sums, own, input_rows), sum_learns=True, learns={1, 2}, weights=(weight.weight,))
    for block in (1, 2, 0):
        work.run(block, sums)
    saved, results = work.put_away(), work.take_results()
    assert work.made == NodeLayout(own=0, input=1 if shown else 0)
    assert len(results) == len(read)
    for rows in results:
        torch.testing.assert_close(rows, whole.rows.detach())
    work.begin_backward(saved, gradients[: len(read)], sums)
    for block in (2, 0, 1):
        work.run_backward(block)
    found = [work.sum_gradient, work.kept_gradients[1], work.kept_gradients[2], *work.end_backward([True])]
    torch.testing.assert_close(tuple(found), expected)
