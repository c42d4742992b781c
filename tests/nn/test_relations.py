"""RGCN's sums: the product before or after the sum gives the same, and the cheaper one is taken."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from starling.nn import relations
from starling.nn.graph import graph_of_edges
from starling.nn.relations import split_by_relation, sum_relations
from starling.plan.linear_work import LinearWork
from tests.nn.graphs import make, rows


@pytest.mark.parametrize("bipartite", [False, True])
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("blocks", [0, 2])
def test_before_or_after_is_the_same(bipartite: bool, mean: bool, blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make(bipartite)
    generator = torch.Generator().manual_seed(1)
    shape = (4, blocks, 6 // blocks, 4 // blocks) if blocks else (4, 6, 4)
    weight = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    x = rows(graph, 6).double().requires_grad_()
    scale = torch.rand(graph.edges, generator=generator, dtype=torch.float64)
    found = []
    for first in (False, True):
        monkeypatch.setattr(relations, "_product_first", lambda *_, first=first: first)
        out = sum_relations(split_by_relation(graph, 4), weight, x, graph.destinations, scale, mean)
        found.append((out, *torch.autograd.grad(out.square().sum(), (x, weight))))
    for after, before in zip(*found, strict=True):
        torch.testing.assert_close(before, after)
    assert found[0][0].abs().sum() > 0


def test_what_is_cheaper() -> None:
    """By hand, with a read worth 16 multiply-adds and no backward pass: 10 edges, 4 sources, 3 rows, 100 → 2 columns.

    Before: 10 · 2 · 16 + 4 · 200 = 1,120. After: 10 · 100 · 16 + 3 · 200 = 16,600; where it is kept, 600.
    """
    work = LinearWork(10, 4, 3, 100, 2, 200)
    assert work.product_first(backward=False, passes=1)
    assert not work.product_first(backward=False, passes=0)
    wider = LinearWork(10, 4, 3, 2, 100, 200)
    assert not wider.product_first(backward=True, passes=2)


def test_distinct_sources_by_hand() -> None:
    graph = make()
    part = split_by_relation(graph, 4)[1]
    assert graph.edge_type is not None
    neighbours = graph.neighbours[graph.edge_type == 1].numpy()
    assert part.sources.tolist() == sorted(set(neighbours.tolist()))
    assert np.array_equal(part.sources.numpy()[part.compact.neighbours], part.edges.neighbours)


def test_scaled_edges_count_as_what_they_stand_for() -> None:
    """One row hears 1 and 3 by relation 0; the second edge stands for three: a mean of (1 + 3 · 3) / 4 = 2.5."""
    pairs, kinds = torch.tensor([[0, 0], [1, 0]]), torch.zeros(2, dtype=torch.int64)
    graph = graph_of_edges(pairs, 2, 1, edge_type=kinds, edge_scale=torch.tensor([1.0, 3.0]))
    mean = sum_relations(
        split_by_relation(graph, 1), torch.ones(1, 1, 1), torch.tensor([[1.0], [3.0]]), 1, graph.edge_scale, True
    )
    assert mean.tolist() == [[2.5]]
