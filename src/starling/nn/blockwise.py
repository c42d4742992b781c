"""Run a Python gather over blocks of edges, so that memory is a block's, not the graph's.

Forward keeps no messages; backward makes each block again and differentiates it. A row with more edges than a block is cut, and
its pieces are joined by the reduction itself (softmax by its log-sums), so the block size changes nothing beyond rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd import Function

from starling.core.errors import InputError
from starling.nn.gather import EdgeBlock, Messages, Reduce
from starling.nn.graph import LocalGraph
from starling.nn.ops.arrays import applied, split_columns
from starling.nn.ops.leaves import leaves_of

BLOCK_EDGES = 1 << 17


@dataclass(frozen=True, eq=False)
class _Plan:
    """Items (rows, or pieces of a row) of at most `block` edges: edges bounds[i] … bounds[i + 1] − 1 belong to owner[i]."""

    graph: LocalGraph
    bounds: Tensor
    owner: Tensor
    block: int

    @cached_property
    def cuts(self) -> NDArray[np.int64]:
        """`bounds` in ordinary memory."""
        cuts: NDArray[np.int64] = self.bounds.cpu().numpy()
        return cuts

    def edges(self, first: int, last: int) -> slice:
        """The edges of a range of items."""
        return slice(int(self.cuts[first]), int(self.cuts[last]))

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Ranges of items that hold at most a block of edges; one of none where there are no items: its result has a shape, too."""
        bounds, items, first = self.cuts, len(self.owner), 0
        if not items:
            yield 0, 0
        while first < items:
            last = int(bounds.searchsorted(bounds[first] + self.block, side="right")) - 1
            last = min(max(last, first + 1), items)
            yield first, last
            first = last


def aggregate_messages(
    graph: LocalGraph, gather: Messages, reduce: Reduce, rows: Tensor, targets: Tensor, block: int = BLOCK_EDGES
) -> tuple[Tensor, Tensor | None]:
    """Reduced messages of every destination, and for softmax the log-sums; rows [S, F], targets [D, F]. A mean stays a sum."""
    function = gather.function
    parameters = tuple(function.parameters()) if isinstance(function, nn.Module) else gather.parameters
    plan = _plan(graph, block)
    _refuse_unnamed(plan, gather, reduce, rows, targets, parameters)
    parts = applied(_Blocks, plan, gather, reduce, rows, targets, *parameters)
    out, log_sum = parts if reduce == "softmax" else (parts, None)
    if len(plan.owner) == graph.destinations:
        return out, log_sum
    return _join(plan.owner, graph.destinations, reduce, out, log_sum)


def _plan(graph: LocalGraph, block: int) -> _Plan:
    degree = graph.local_degree
    pieces = (degree + block - 1).div(block, rounding_mode="floor").clamp(min=1)
    owner = torch.repeat_interleave(torch.arange(graph.destinations, device=graph.device), pieces)
    number = torch.arange(len(owner), device=graph.device) - torch.repeat_interleave(pieces.cumsum(0) - pieces, pieces)
    bounds = torch.cat([graph.offsets[owner] + number * block, graph.offsets[-1:]])
    return _Plan(graph, bounds, owner, block)


def _run(plan: _Plan, gather: Messages, reduce: Reduce, source: Tensor, target: Tensor, first: int, last: int) -> Any:
    """Messages and reduction of one block; source and target are its gathered rows."""
    graph, edges = plan.graph, plan.edges(first, last)
    tables = (None if x is None else x[edges] for x in (graph.edge_weight, graph.edge_attr, graph.edge_type))
    messages: Any = gather.function(source, EdgeBlock(*tables), target)
    item = torch.repeat_interleave(torch.arange(last - first, device=graph.device), plan.bounds[first : last + 1].diff())
    if reduce == "softmax":
        score, messages = messages
        return _softmax(item, last - first, score, messages)
    if reduce == "max":
        zero = messages.new_zeros(last - first, messages.shape[1])
        return zero.scatter_reduce(0, item[:, None].expand_as(messages), messages, "amax", include_self=False)
    if graph.edge_scale is not None:  # sampled edges stand for others, too
        messages = messages * graph.edge_scale[edges].to(messages.dtype)[:, None]
    return messages.new_zeros(last - first, messages.shape[1]).index_add(0, item, messages)


def _softmax(item: Tensor, items: int, score: Tensor, messages: Tensor) -> tuple[Tensor, Tensor]:
    index = item[:, None].expand_as(score)
    top = score.new_full((items, score.shape[1]), -torch.inf).scatter_reduce(0, index, score.detach(), "amax")
    top = torch.where(top.isinf(), 0.0, top)
    weight = (score - top[item]).exp()
    total = torch.zeros_like(top).index_add(0, item, weight)
    heads = split_columns(messages, score.shape[1])
    out = heads.new_zeros(items, *heads.shape[1:]).index_add(0, item, heads * weight[..., None])
    return (out / torch.where(total == 0, 1.0, total)[..., None]).flatten(1), top + total.log()


def _join(owner: Tensor, rows: int, reduce: Reduce, out: Tensor, log_sum: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Reduce the pieces of each row."""
    if log_sum is not None:
        merged, whole = _softmax(owner, rows, log_sum, out)
        return merged, whole
    if reduce == "max":
        index = owner[:, None].expand_as(out)
        return out.new_zeros(rows, out.shape[1]).scatter_reduce(0, index, out, "amax", include_self=False), None
    return out.new_zeros(rows, out.shape[1]).index_add(0, owner, out), None


class _Blocks(Function):
    @staticmethod
    def forward(
        ctx: Any, plan: _Plan, gather: Messages, reduce: Reduce, rows: Tensor, targets: Tensor, *parameters: Tensor
    ) -> Any:
        ctx.plan, ctx.gather, ctx.reduce = plan, gather, reduce
        ctx.save_for_backward(rows, targets, *parameters)
        ctx.set_materialize_grads(False)
        parts = []
        for first, last in plan.blocks():
            source, target = _ends(plan, first, last)
            parts.append(_run(plan, gather, reduce, rows[source], targets[target], first, last))
        if reduce == "softmax":
            return torch.cat([out for out, _ in parts]), torch.cat([log_sum for _, log_sum in parts])
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        rows, targets, *parameters = ctx.saved_tensors
        into = [torch.zeros_like(x) if x.requires_grad else None for x in (rows, targets, *parameters)]
        for first, last in ctx.plan.blocks():
            source, target = _ends(ctx.plan, first, last)
            with torch.enable_grad():
                ends = [rows[source].detach().requires_grad_(), targets[target].detach().requires_grad_()]
                outs = _run(ctx.plan, ctx.gather, ctx.reduce, ends[0], ends[1], first, last)
            pairs = [
                (out, given[first:last])
                for out, given in zip(outs if isinstance(outs, tuple) else (outs,), gradients, strict=True)
                if given is not None and out.requires_grad
            ]
            if not pairs:
                continue
            wanted = [*ends, *(p for p in parameters if p.requires_grad)]
            found = list(torch.autograd.grad([o for o, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True))
            for total, index in zip(into, (source, target, *[None] * len(parameters)), strict=True):
                part = found.pop(0) if index is not None or total is not None else None
                if total is not None and part is not None:
                    total.index_add_(0, index, part) if index is not None else total.add_(part)
        return None, None, None, *into


def _ends(plan: _Plan, first: int, last: int) -> tuple[Tensor, Tensor]:
    """Source rows and destinations of the edges of a block."""
    edges = plan.edges(first, last)
    counts = plan.bounds[first : last + 1].diff()
    return plan.graph.neighbours_at(edges).long(), torch.repeat_interleave(plan.owner[first:last], counts)


def _refuse_unnamed(
    plan: _Plan, gather: Messages, reduce: Reduce, rows: Tensor, targets: Tensor, parameters: tuple[Tensor, ...]
) -> None:
    """Fail where the function uses a trainable tensor that was not named: its gradient would be lost without a word."""
    if not torch.is_grad_enabled() or plan.graph.edges == 0:
        return
    degree = plan.bounds.diff()
    first = int(torch.nonzero(degree)[0])
    source, target = _ends(plan, first, first + 1)
    outs = _run(plan, gather, reduce, rows[source].detach(), targets[target].detach(), first, first + 1)
    known = {id(parameter) for parameter in parameters}
    for leaf in leaves_of(outs if isinstance(outs, tuple) else (outs,)):
        if id(leaf) not in known:
            raise InputError(
                f"A Python gather uses a trainable tensor of shape {tuple(leaf.shape)} that was not named. "
                "Pass it in Messages(parameters=…), or make the gather a torch.nn.Module that holds it."
            )
