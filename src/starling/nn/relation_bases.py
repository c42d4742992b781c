"""RGCN's gather where matrices are combinations of a few bases: sums go over bases, however many relations there are.

With W_r = Σ_b c_rb V_b, the sum over edges u → v of x_u W_r(e) is Σ_b (Σ_e c_r(e),b x_u) V_b: a sum of neighbours with a number
for each edge and basis, and one product with all bases side by side. No matrix of a relation is ever made. The coefficients'
gradient comes from dot products of rows, an edge at a time (`kernels/scores.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from starling.kernels.relation_totals import relation_totals
from starling.nn.graph import LocalGraph
from starling.nn.ops import plain, sums
from starling.nn.ops.arrays import has_kernels
from starling.nn.relations import checked_types
from starling.plan.linear_work import EDGE_COST, LinearWork


@dataclass(frozen=True, eq=False)
class RelationShares:
    """What makes sums means: `share` [E] is one over the edges of its row and relation; `pairs` are the rows' relations."""

    share: Tensor
    pairs: int


def shares_of(graph: LocalGraph, relations: int) -> RelationShares:
    """The shares of a graph's edges, made once a graph."""
    kept: dict[int, RelationShares] = graph.__dict__.setdefault("_relation_shares", {})
    if relations not in kept:
        kept[relations] = _shares(graph, relations)
    return kept[relations]


def _shares(graph: LocalGraph, relations: int) -> RelationShares:
    kinds, scale = checked_types(graph, relations), graph.edge_scale
    weight = np.empty(0, np.float32) if scale is None else scale.float().cpu().numpy()
    found, pairs = relation_totals(graph.offsets.cpu().numpy(), kinds, relations, weight)
    totals = torch.from_numpy(found).to(graph.device)
    if graph.relation_degree is not None and graph.edge_type is not None:  # other workers have edges of these rows, too
        totals = graph.relation_degree[graph.edge_destination, graph.edge_type.long()].float()
    return RelationShares(1.0 / totals, pairs)


def sum_bases(graph: LocalGraph, bases: Tensor, mix: Tensor, x: Tensor, *, mean: bool) -> Tensor:
    """Σ over relations of (mean or sum over its neighbours) @ (mix[r] · bases), [D, F']; `bases` [B, F, F'], `mix` [R, B]."""
    assert graph.edge_type is not None, "checked where shares are made"
    count, fan_in, fan_out = bases.shape
    coefficient = mix.index_select(0, graph.edge_type.long())
    for factor in (shares_of(graph, len(mix)).share if mean else None, graph.edge_scale):
        if factor is not None:
            coefficient = coefficient * factor.to(mix.dtype)[:, None]
    work = LinearWork(graph.edges * count, graph.sources, graph.destinations, fan_in, fan_out, bases.numel())
    backward = torch.is_grad_enabled()
    if work.product_first(backward=backward, passes=2 if backward and x.requires_grad else 1):
        return _sum(graph, x @ bases.permute(1, 0, 2).reshape(fan_in, count * fan_out), coefficient, fan_out)
    return _sum(graph, x, coefficient, count * fan_in) @ bases.reshape(count * fan_in, fan_out)


def _sum(graph: LocalGraph, x: Tensor, coefficient: Tensor, width: int) -> Tensor:
    if has_kernels(x):
        return sums.sum_by_heads(graph.adjacency, x, coefficient, width)
    return plain.sum_by_heads(graph, x, coefficient, width)


def bases_are_cheaper(graph: LocalGraph, bases: Tensor, mix: Tensor, x: Tensor) -> bool:
    """Whether summing by basis reads and multiplies less than making every relation's matrix and summing by relation."""
    count, fan_in, fan_out = bases.shape
    backward, matrix = torch.is_grad_enabled(), fan_in * fan_out
    products, reads = 3 if backward else 1, 2 if backward and x.requires_grad else 1
    sums_once = graph.edges * min(fan_in, fan_out) * EDGE_COST
    by_basis = count * (sums_once * (reads + backward) + graph.destinations * matrix * products)
    pairs = shares_of(graph, len(mix)).pairs
    by_relation = sums_once * reads + (pairs + len(mix) * count) * matrix * products
    return by_basis < by_relation
