"""The same operations in ordinary torch: the oracle of the tests, and the path taken on devices other than the CPU.

Each gathers a message an edge, so memory is edges × features; autograd finds the gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from starling.nn.graph import LocalGraph
from starling.nn.ops.arrays import split_columns


def sum_neighbours(
    graph: LocalGraph,
    x: Tensor,
    *,
    edge_weight: Tensor | None = None,
    source_scale: Tensor | None = None,
    row_scale: Tensor | None = None,
    own_weight: Tensor | None = None,
) -> Tensor:
    """R (W + L) C x, [D, F]."""
    x = x.float() if x.dtype == torch.bfloat16 else x
    scaled = x if source_scale is None else x * source_scale.to(x.dtype)[:, None]
    messages = scaled[graph.neighbours.long()]
    if edge_weight is not None:
        messages = messages * edge_weight.to(x.dtype)[:, None]
    out = x.new_zeros(graph.destinations, x.shape[1]).index_add(0, graph.edge_destination, messages)
    if own_weight is not None:
        count = len(own_weight)
        out = torch.cat([out[:count] + own_weight.to(x.dtype)[:, None] * scaled[:count], out[count:]])
    return out if row_scale is None else out * row_scale.to(x.dtype)[:, None]


def sum_by_heads(graph: LocalGraph, x: Tensor, edge_weight: Tensor, width: int) -> Tensor:
    """Σ over neighbours with H weights an edge [E, H], side by side or added up (`sums.sum_by_heads`), [D, width]."""
    messages = split_columns(x[graph.neighbours.long()], 1 if width > x.shape[1] else edge_weight.shape[1])
    messages = messages * edge_weight[:, :, None]
    messages = messages.flatten(1) if width > x.shape[1] else messages.sum(1)
    return x.new_zeros(graph.destinations, width).index_add(0, graph.edge_destination, messages)


def max_neighbours(graph: LocalGraph, x: Tensor) -> Tensor:
    """The largest value among the neighbours, [D, F]; zero for a row without any."""
    x = x.float() if x.dtype == torch.bfloat16 else x
    index = graph.edge_destination[:, None].expand(-1, x.shape[1])
    zero = x.new_zeros(graph.destinations, x.shape[1])
    return zero.scatter_reduce(0, index, x[graph.neighbours.long()], "amax", include_self=False)


def attend(
    graph: LocalGraph,
    x: Tensor,
    score: Tensor,
    *,
    own_score: Tensor | None = None,
    edge_rows: Tensor | None = None,
    edge_factor: Tensor | None = None,
    own_factor: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Sum of rows weighted by the softmax of score [E, H], and the log-sums; factors [·, H] are dropout's masks."""
    heads, row = score.shape[1], graph.edge_destination
    own = score.new_full((graph.destinations, heads), -torch.inf)
    if own_score is not None:
        own = torch.cat([own_score, own[len(own_score) :]])
    top = own.detach().scatter_reduce(0, row[:, None].expand(-1, heads), score.detach(), "amax")
    top = torch.where(top.isinf(), 0.0, top)
    edge, alone = (score - top[row]).exp(), (own - top).exp()
    total = alone.index_add(0, row, edge)
    share = torch.where(total == 0, 1.0, total)
    weight = edge / share[row]
    if edge_factor is not None:
        weight = weight * edge_factor
    z = split_columns(x, heads)
    out = z.new_zeros(graph.destinations, *z.shape[1:])
    if own_score is not None:
        loops = alone[: len(own_score)] / share[: len(own_score)]
        loops = loops if own_factor is None else loops * own_factor
        out = torch.cat([loops[..., None] * z[: len(loops)], out[len(loops) :]])
    out = out.index_add(0, row, weight[..., None] * z[graph.neighbours.long()]).flatten(1)
    if edge_rows is not None:
        beside = weight[..., None] * edge_rows[:, None, :]
        out = torch.cat([out, beside.new_zeros(graph.destinations, *beside.shape[1:]).index_add(0, row, beside).flatten(1)], 1)
    return out, top + total.log()


def additive_score(graph: LocalGraph, source: Tensor, target: Tensor, slope: float, edge_score: Tensor | None = None) -> Tensor:
    """GAT's scores, [E, H]."""
    score = source[graph.neighbours.long()] + target[graph.edge_destination]
    return leaky_relu(score if edge_score is None else score + edge_score, slope)


def pair_score(graph: LocalGraph, x: Tensor, target: Tensor, vector: Tensor, slope: float) -> Tensor:
    """GATv2's scores, [E, H]."""
    both = leaky_relu(x[graph.neighbours.long()] + target[graph.edge_destination], slope)
    return (split_columns(both, len(vector)) * vector).sum(-1)
