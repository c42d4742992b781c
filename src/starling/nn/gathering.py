"""What comes along the in-edges of some destinations, reduced where the rows of all sources are.

A view (`view.py`) brings these rows and joins what several workers made of one destination's edges; here nobody knows of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from starling.core.errors import InputError
from starling.nn.blockwise import aggregate_messages
from starling.nn.gather import Attention, ByRelation, Copy, Gather, Messages, PairAttention, Reduce, RelationAttention
from starling.nn.graph import LocalGraph
from starling.nn.moment import Moment
from starling.nn.ops import attend, plain, sums
from starling.nn.ops.arrays import has_kernels
from starling.nn.relation_attention import attend_relations
from starling.nn.relation_bases import bases_are_cheaper, sum_bases
from starling.nn.relations import relations_of, sum_relations

_NEXT_TO_NOTHING = -1e30
"""A score whose weight is zero beside any other; unlike −∞ it stays a number where a worker has no other."""


Reduced: TypeAlias = "tuple[Tensor, Tensor | None]"
"""What the edges here give each destination [D, F'], and after a softmax the log-sums of its scores [D, H], −∞ without edges.

It is all of it, unless others have in-edges of the same rows; the log-sums weigh it against what theirs give.
"""


@dataclass(frozen=True, eq=False)
class Gathering:
    """A local graph at one moment. `spread`: in-edges of one row lie with several workers, so that results are partial."""

    graph: LocalGraph
    moment: Moment
    spread: bool = False

    def reduce(self, gather: Gather, reduce: Reduce, rows: Tensor) -> Reduced:
        """Reduce what comes along each edge: rows of all sources [S, F] → [D, F']. Of copies these are maxima."""
        if isinstance(gather, Copy):
            assert reduce == "max", "sums of copies are the view's (`View.sum_copies`)"
            return self._max(rows), None
        if isinstance(gather, Attention):
            return self._attention(gather, rows)
        if isinstance(gather, PairAttention):
            return self._pair_attention(gather, rows)
        if isinstance(gather, ByRelation):
            return self._by_relation(gather, reduce, rows), None
        if isinstance(gather, RelationAttention):
            return attend_relations(self.graph, gather, rows, self._attention_key(gather))
        return self._messages(gather, reduce, rows)

    def _max(self, rows: Tensor) -> Tensor:
        graph = self.graph
        return sums.max_neighbours(graph.adjacency, rows) if has_kernels(rows) else plain.max_neighbours(graph, rows)

    def _attention(self, gather: Attention, rows: Tensor) -> Reduced:
        graph = self.graph
        vectors = torch.cat([_by_heads(gather.source_vector), _by_heads(gather.target_vector)], 1)
        rows, scores = attend.with_products(rows, vectors)  # one product: some of the rows would have a costly gradient
        heads = len(gather.source_vector)
        source, target = scores[:, :heads], scores[: graph.destinations, heads:]
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
        return out, log_sum

    def _pair_attention(self, gather: PairAttention, rows: Tensor) -> Reduced:
        graph, target = self.graph, gather.target
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
        return out, log_sum

    def _by_relation(self, gather: ByRelation, reduce: Reduce, rows: Tensor) -> Tensor:
        if self.spread and reduce == "mean" and self.graph.relation_degree is None:
            raise InputError("Expected 'relation_degree' for a mean by relation over a vertex-cut, got none.")
        graph, mean = self.graph, reduce == "mean"
        row_scale = gather.row_scale if mean else product_of(gather.row_scale, graph.row_scale)
        plain_sums = all(factor is None for factor in (gather.edge_weight, gather.source_scale, row_scale))
        if gather.mix is not None and plain_sums and bases_are_cheaper(graph, gather.weight, gather.mix, rows):
            return sum_bases(graph, gather.weight, gather.mix, rows, mean=mean)
        parts, edge_weight = relations_of(graph, gather.relations), product_of(gather.edge_weight, graph.edge_scale)
        return sum_relations(
            parts, gather.matrices, rows, graph.destinations, edge_weight, mean, gather.source_scale, row_scale
        )

    def _messages(self, gather: Messages, reduce: Reduce, rows: Tensor) -> Reduced:
        graph = self.graph
        out, log_sum = aggregate_messages(graph, gather, reduce, rows, rows[: graph.destinations])
        if log_sum is not None:
            return out, log_sum
        scale = None if reduce == "max" else graph.mean_scale if reduce == "mean" else graph.row_scale
        return out if scale is None else out * scale.to(out.dtype)[:, None], None

    def _unless_looped(self, own_score: Tensor) -> Tensor:
        """Scores of self-loops [outputs, H], next to nothing for rows that have one among their edges: it counts once."""
        looped = self.graph.has_loop if self.spread else self.graph.loop_is_here
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


def product_of(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Factors multiplied; None is one."""
    return b if a is None else a if b is None else a * b


def _by_heads(vector: Tensor) -> Tensor:
    """[H, F] → [H·F, H] with head h's vector in column h: a product with it takes each head's dot product."""
    heads, width = vector.shape
    blocks = vector.new_zeros(heads, width, heads)
    diagonal = torch.arange(heads, device=vector.device)
    return blocks.index_put((diagonal[:, None], torch.arange(width, device=vector.device), diagonal[:, None]), vector).flatten(
        0, 1
    )
