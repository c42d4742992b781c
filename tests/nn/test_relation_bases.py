"""RGCN with bases: sums by basis are those by relation, and the cheaper is taken."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from starling.nn.gather import ByRelation
from starling.nn.graph import LocalGraph, graph_of_edges
from starling.nn.ops import plain, sums
from starling.nn.relation_bases import bases_are_cheaper, shares_of, sum_bases
from starling.nn.relations import split_by_relation, sum_relations
from starling.plan.linear_work import LinearWork
from tests.nn.graphs import make, rows


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("bipartite", [False, True])
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_as_by_relation(bipartite: bool, mean: bool, scaled: bool, first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make(bipartite)
    if scaled:
        graph = replace(graph, edge_scale=torch.rand(graph.edges, generator=torch.Generator().manual_seed(3)) + 0.5)
    monkeypatch.setattr(LinearWork, "product_first", lambda *_, **__: first)
    bases, mix, x = drawn(3, 6, 5), drawn(4, 3, seed=2), rows(graph, 6).double().requires_grad_()
    found = sum_bases(graph, bases, mix, x, mean=mean)
    matrices = ByRelation(bases, mix).matrices
    expected = sum_relations(split_by_relation(graph, 4), matrices, x, graph.destinations, graph.edge_scale, mean)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)  # shares are float32
    gradients = [torch.autograd.grad(out.square().sum(), (x, bases, mix), retain_graph=True) for out in (found, expected)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-5)
    assert found.abs().sum() > 0


@pytest.mark.parametrize("width", [2, 12])
def test_heads_like_plain_torch(width: int) -> None:
    """Three heads over all of 4 columns, side by side, or two columns each of 6, added up."""
    graph = make()
    x, weight = rows(graph, 4 if width == 12 else 6).double().requires_grad_(), drawn(graph.edges, 3)
    outs = sums.sum_by_heads(graph.adjacency, x, weight, width), plain.sum_by_heads(graph, x, weight, width)
    torch.testing.assert_close(*outs)
    ours, theirs = (torch.autograd.grad(out.sin().sum(), (x, weight)) for out in outs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)
    torch.autograd.gradcheck(lambda x, weight: sums.sum_by_heads(graph.adjacency, x, weight, width), (x, weight))


def two_relations() -> LocalGraph:
    """Row 0 hears rows 0 and 1 by relation 0 and row 1 by relation 1."""
    return graph_of_edges(torch.tensor([[0, 0], [1, 0], [1, 0]]), 2, 1, edge_type=torch.tensor([0, 0, 1]))


def test_by_hand() -> None:
    """Matrices 1 · 2 + 0 · 5 = 2 and 3 · 2 + 1 · 5 = 11; means (1 + 4) / 2 and 4: 2.5 · 2 + 4 · 11 = 49."""
    graph, x = two_relations(), torch.tensor([[1.0], [4.0]])
    bases, mix = torch.tensor([[[2.0]], [[5.0]]]), torch.tensor([[1.0, 0.0], [3.0, 1.0]])
    assert sum_bases(graph, bases, mix, x, mean=True).tolist() == [[49.0]]
    assert sum_bases(graph, bases, mix, x, mean=False).tolist() == [[54.0]]
    assert shares_of(graph, 2).share.tolist() == [0.5, 0.5, 1.0]


def test_degrees_over_all_workers_count() -> None:
    """Where others have edges of the row too, shares are of all: 3 by relation 0, 2 by relation 1."""
    graph = replace(two_relations(), relation_degree=torch.tensor([[3, 2]]))
    assert shares_of(graph, 2).share.tolist() == pytest.approx([1 / 3, 1 / 3, 0.5])


def test_what_is_cheaper() -> None:
    """By hand, without a backward pass, a read worth 16 multiply-adds: 3 edges, 2 pairs, one destination, 1 → 1 columns.

    One basis of two relations: 3 · 16 + 1 against 3 · 16 + (2 + 2); two bases: 2 · (3 · 16 + 1) against 3 · 16 + (2 + 4).
    """
    graph, x = two_relations(), torch.ones(2, 1)
    with torch.no_grad():
        assert bases_are_cheaper(graph, torch.ones(1, 1, 1), torch.ones(2, 1), x)
        assert not bases_are_cheaper(graph, torch.ones(2, 1, 1), torch.ones(2, 2), x)
