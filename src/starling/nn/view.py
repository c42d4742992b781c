"""A layer's window on the graph: what it may ask for, and the one place where aggregation happens.

``aggregate`` pulls mirrors' rows through the exchange, runs the gather's kernel on the local edges, and joins partial results.
An engine that overlaps messages with work subclasses `View` and overrides `aggregate` (or `linear`); layers do not change.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from starling.core.errors import InputError
from starling.core.exchange import ALONE, Exchange
from starling.core.keyed import stream_key
from starling.nn.blockwise import aggregate_messages
from starling.nn.gather import Attention, ByRelation, Copy, Gather, Messages, PairAttention, Reduce, RelationAttention
from starling.nn.graph import LocalGraph
from starling.nn.ops import attend, plain, sums
from starling.nn.ops.arrays import has_kernels
from starling.nn.relation_attention import attend_relations
from starling.nn.relation_bases import bases_are_cheaper, sum_bases
from starling.nn.relations import relations_of, sum_relations
from starling.nn.reuse import Constants
from starling.nn.row_work import Node, RowWork

_NEXT_TO_NOTHING = -1e30
"""A score whose weight is zero beside any other; unlike −∞ it stays a number where a worker has no other."""


@dataclass(frozen=True)
class Moment:
    """When a step happens: what random choices are keyed by, beside node and feature."""

    seed: int = 0
    epoch: int = 0
    step: int = 0

    def key(self, stream: str) -> np.uint64:
        """The key of one stream of numbers at this step."""
        return stream_key(self.seed, stream, self.epoch, self.step)


@dataclass(frozen=True)
class Size:
    """Rows and edges of one layer over all workers: what a choice must depend on that all workers make alike."""

    sources: int
    destinations: int
    edges: int


@dataclass(eq=False)
class View:
    """A local graph with its exchange, at one moment. `constants` remembers aggregates of constant input features."""

    graph: LocalGraph
    exchange: Exchange = ALONE
    moment: Moment = field(default_factory=Moment)
    constants: Constants | None = None

    @property
    def size(self) -> Size:
        """Rows and edges of this layer; an engine answers with the numbers over all workers."""
        return Size(self.graph.sources, self.graph.destinations, self.graph.edges)

    def destinations(self, rows: Tensor) -> Tensor:
        """The rows of this worker's destinations, the first of its rows."""
        return rows[: self.graph.outputs]

    def is_constant(self, rows: Tensor) -> bool:
        """Whether these rows are input features (or sums of them) that stay the same, so that their aggregate is kept."""
        return self.constants is not None and self.constants.holds(rows)

    def aggregate(self, gather: Gather, reduce: Reduce, rows: Tensor) -> Tensor:
        """Reduce what comes along each in-edge: owned rows [owned, F] → [outputs, F']."""
        self._check(gather, reduce, rows)
        if isinstance(gather, Copy):
            if reduce == "max":
                return self._max(rows)
            if self.constants is not None and self.constants.holds(rows):
                return self.constants.once(self.graph, gather, reduce, rows, lambda: self.linear(gather, reduce, rows))
            return self.linear(gather, reduce, rows)
        if rows.dtype == torch.bfloat16:  # sums of copies widen what they read; all others reckon in float32 from here on
            rows = rows.float()
        if isinstance(gather, Attention):
            return self._attention(gather, rows)
        if isinstance(gather, PairAttention):
            return self._pair_attention(gather, rows)
        if isinstance(gather, ByRelation):
            return self._by_relation(gather, reduce, rows)
        if isinstance(gather, RelationAttention):
            return self._relation_attention(gather, rows)
        return self._messages(gather, reduce, rows)

    def aggregate_then(self, gather: Gather, reduce: Reduce, node: Node, work: RowWork) -> Node:
        """`aggregate`, and then what is done with each destination's row: here with all of them at once."""
        return work.run(0, node, self.aggregate(gather, reduce, node.rows))

    def linear(self, gather: Copy, reduce: Reduce, rows: Tensor) -> Tensor:
        """A sum or mean of copied rows: one sparse product."""
        factors, rows = self.factors(gather, reduce, self.graph.edge_scale), self.exchange.pull(rows)
        if has_kernels(rows):
            partial = sums.sum_neighbours(self.graph.adjacency, rows, **factors)
        else:
            partial = plain.sum_neighbours(self.graph, rows, **factors)
        return self.exchange.push_sum(partial)

    def factors(self, gather: Copy, reduce: Reduce, edge_scale: Tensor | None) -> dict[str, Tensor | None]:
        """What the sparse product of a sum or mean is scaled by (`sums.sum_neighbours`)."""
        graph = self.graph
        edge_weight, row_scale = _product(gather.edge_weight, edge_scale), gather.row_scale
        if reduce == "mean":
            row_scale = _product(row_scale, graph.mean_scale)
        elif graph.row_scale is not None and gather.self_loop:  # the self-loop was not sampled: scale the others only
            edge_weight = _product(edge_weight, graph.row_scale[graph.edge_destination])
        else:
            row_scale = _product(row_scale, graph.row_scale)
        own = None
        if gather.self_loop:
            own = graph.spread_own_weight if self.exchange.spread else graph.own_weight
        return {"edge_weight": edge_weight, "source_scale": gather.source_scale, "row_scale": row_scale, "own_weight": own}

    def _max(self, rows: Tensor) -> Tensor:
        graph, rows = self.graph, self.exchange.pull(rows)
        partial = sums.max_neighbours(graph.adjacency, rows) if has_kernels(rows) else plain.max_neighbours(graph, rows)
        if not self.exchange.spread:
            return partial
        absent = (graph.local_degree == 0)[:, None]  # a zero for "no edge here" must not beat others' negative maxima
        whole = self.exchange.push_max(partial.masked_fill(absent, -torch.inf))
        return whole.masked_fill(whole == -torch.inf, 0.0)

    def _attention(self, gather: Attention, rows: Tensor) -> Tensor:
        graph, rows = self.graph, self.exchange.pull(rows)
        source = rows @ _by_heads(gather.source_vector)
        target = rows[: graph.destinations] @ _by_heads(gather.target_vector)
        own = None
        if gather.self_loop:
            own = self._unless_looped(leaky_relu(source[: graph.outputs] + target[: graph.outputs], gather.slope))
        if not has_kernels(rows):
            score = plain.additive_score(graph, source, target, gather.slope, gather.edge_score)
            masks = self._attention_masks(gather, score)
            out, log_sum = plain.attend(graph, rows, score, own_score=own, edge_rows=gather.edge_rows, **masks)
        else:
            out, log_sum = attend.attend_additive(
                graph.adjacency, rows, source, target, gather.slope, own_score=own, edge_score=gather.edge_score,
                edge_rows=gather.edge_rows, dropout=self._edge_dropout(gather),
            )  # fmt: skip
        return self._join(out, log_sum, rows.shape[1])

    def _pair_attention(self, gather: PairAttention, rows: Tensor) -> Tensor:
        graph, rows = self.graph, self.exchange.pull(rows)
        target = self.exchange.pull(gather.target)[: graph.destinations] if self.exchange.spread else gather.target
        own = None
        if gather.self_loop:
            both = leaky_relu(rows[: graph.outputs] + target[: graph.outputs], gather.slope)
            own = self._unless_looped(both @ _by_heads(gather.vector))
        if not has_kernels(rows):
            score = plain.pair_score(graph, rows, target, gather.vector, gather.slope)
            out, log_sum = plain.attend(graph, rows, score, own_score=own, **self._attention_masks(gather, score))
        else:
            out, log_sum = attend.attend_pairs(
                graph.adjacency, rows, target, gather.vector, gather.slope, own_score=own, dropout=self._edge_dropout(gather)
            )
        return self._join(out, log_sum, rows.shape[1])

    def _by_relation(self, gather: ByRelation, reduce: Reduce, rows: Tensor) -> Tensor:
        rows = self.exchange.pull(rows)
        if self.exchange.spread and reduce == "mean" and self.graph.relation_degree is None:
            raise InputError("Expected 'relation_degree' for a mean by relation over a vertex-cut, got none.")
        graph, mean = self.graph, reduce == "mean"
        row_scale = gather.row_scale if mean else _product(gather.row_scale, graph.row_scale)
        plain_sums = all(factor is None for factor in (gather.edge_weight, gather.source_scale, row_scale))
        if gather.mix is not None and plain_sums and bases_are_cheaper(graph, gather.weight, gather.mix, rows):
            partial = sum_bases(graph, gather.weight, gather.mix, rows, mean=mean)
        else:
            parts, edge_weight = relations_of(graph, gather.relations), _product(gather.edge_weight, graph.edge_scale)
            partial = sum_relations(
                parts, gather.matrices, rows, graph.destinations, edge_weight, mean, gather.source_scale, row_scale
            )
        return self.exchange.push_sum(partial)

    def _relation_attention(self, gather: RelationAttention, rows: Tensor) -> Tensor:
        if self.exchange.spread and gather.within:
            raise InputError(
                "A softmax within each relation needs all in-edges of a node in one place, got a vertex-cut. "
                "Set softmax=across, or partition into an edge-cut."
            )
        out, log_sum = attend_relations(self.graph, gather, self.exchange.pull(rows), self._attention_key(gather))
        return self._join(out, log_sum, out.shape[1])

    def _messages(self, gather: Messages, reduce: Reduce, rows: Tensor) -> Tensor:
        graph, rows = self.graph, self.exchange.pull(rows)
        out, log_sum = aggregate_messages(graph, gather, reduce, rows, rows[: graph.destinations])
        if log_sum is not None:
            return self._join(out, log_sum, out.shape[1])
        if reduce == "max":
            if not self.exchange.spread:
                return out
            absent = (graph.local_degree == 0)[:, None]
            whole = self.exchange.push_max(out.masked_fill(absent, -torch.inf))
            return whole.masked_fill(whole == -torch.inf, 0.0)
        scale = graph.mean_scale if reduce == "mean" else graph.row_scale
        return self.exchange.push_sum(out if scale is None else out * scale.to(out.dtype)[:, None])

    def _join(self, out: Tensor, log_sum: Tensor, width: int) -> Tensor:
        """Softmax-weighted sums over a worker's own edges → over all edges: weighted by exp(log-sum − whole log-sum)."""
        if not self.exchange.spread:
            return out
        heads = log_sum.shape[1]
        with torch.no_grad():
            top = self.exchange.pull(self.exchange.push_max(log_sum))[: self.graph.destinations]
            top = torch.where(top.isinf(), 0.0, top)
        share = (log_sum - top).exp()
        # A head's columns may lie in two groups: node columns, then edge columns.
        spread_share = torch.cat([share.repeat_interleave(part // heads, 1) for part in (width, out.shape[1] - width)], 1)
        whole = self.exchange.push_sum(torch.cat([out * spread_share, share], 1))
        total = whole[:, -heads:]
        total = torch.where(total == 0, 1.0, total)
        spread_total = torch.cat([total.repeat_interleave(part // heads, 1) for part in (width, out.shape[1] - width)], 1)
        return whole[:, :-heads] / spread_total

    def _unless_looped(self, own_score: Tensor) -> Tensor:
        """Scores of self-loops [outputs, H], next to nothing for rows that have one among their edges: it counts once."""
        looped = self.graph.has_loop if self.exchange.spread else self.graph.loop_entry >= 0
        return own_score.masked_fill(looped[:, None], _NEXT_TO_NOTHING)

    def _edge_dropout(self, gather: Attention | PairAttention) -> attend.EdgeDropout | None:
        if gather.dropout == 0:
            return None
        return attend.EdgeDropout(gather.dropout, self._attention_key(gather), self.graph.row_key)

    def _attention_masks(self, gather: Attention | PairAttention, score: Tensor) -> dict[str, Tensor]:
        """Dropout's factors for a device without kernels: drawn on the CPU, the same bits."""
        graph, dropout = self.graph, self._edge_dropout(gather)
        if dropout is None:
            return {}
        edge, own = (torch.ones(count, score.shape[1]) for count in (graph.edges, graph.outputs))
        dropout.apply(graph.adjacency, edge.numpy(), edge.numpy())
        dropout.apply(attend.self_loops(graph.outputs), own.numpy(), own.numpy())
        return {"edge_factor": edge.to(score), "own_factor": own.to(score)}

    def _attention_key(self, gather: Attention | PairAttention | RelationAttention) -> np.uint64:
        return self.moment.key(f"attention/{gather.name}")

    def _check(self, gather: Gather, reduce: Reduce, rows: Tensor) -> None:
        softmax = isinstance(gather, Attention | PairAttention | RelationAttention)
        if softmax != (reduce == "softmax") and not isinstance(gather, Messages):
            raise ValueError(f"{type(gather).__name__} cannot be reduced by {reduce}")
        if not self.exchange.spread and self.exchange is ALONE and len(rows) != self.graph.sources:
            raise InputError(f"Expected a row for each of {self.graph.sources:,} sources, got {len(rows):,}.")
        if self.exchange.spread and reduce == "mean" and self.graph.degree is None and not isinstance(gather, ByRelation):
            raise InputError("Expected the whole graph's 'degree' for a mean over a vertex-cut, got none.")


def _product(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a * b


def _by_heads(vector: Tensor) -> Tensor:
    """[H, F] → [H·F, H] with head h's vector in column h: a product with it takes each head's dot product."""
    heads, width = vector.shape
    blocks = vector.new_zeros(heads, width, heads)
    diagonal = torch.arange(heads, device=vector.device)
    return blocks.index_put((diagonal[:, None], torch.arange(width, device=vector.device), diagonal[:, None]), vector).flatten(
        0, 1
    )
