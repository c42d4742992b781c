"""A layer's window on the graph: what it may ask for, and the one place where aggregation happens.

``aggregate`` brings mirrors' rows through the exchange, reduces what comes along the local edges (`gathering.py`), and joins what
several workers made. An engine that overlaps messages with work subclasses `View` and overrides how these are done (`aggregate`,
`aggregate_then`, `linear`, `on_lists`); layers do not change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import torch
from torch import Tensor

from starling.core.errors import InputError
from starling.core.exchange import ALONE, Exchange
from starling.nn.excerpt import Excerpt
from starling.nn.gather import Attention, ByRelation, Copy, Gather, Messages, PairAttention, Reduce, RelationAttention
from starling.nn.gathering import Gathering, product_of
from starling.nn.graph import LocalGraph
from starling.nn.moment import Moment
from starling.nn.ops import plain, sums
from starling.nn.ops.arrays import has_kernels
from starling.nn.reuse import Constants
from starling.nn.row_work import Node, RowWork

ListWork: TypeAlias = "Callable[[Excerpt, Tensor], tuple[Tensor, ...]]"
"""Makes of some destinations' in-edges, and the rows of all their sources, a row or several for each destination."""


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
        if isinstance(gather, Copy) and reduce != "max":
            if self.constants is not None and self.constants.holds(rows):
                return self.constants.once(self.graph, gather, reduce, rows, lambda: self.sum_copies(gather, reduce, rows))
            return self.sum_copies(gather, reduce, rows)
        rows = self.widened(gather, rows)
        out, *log_sum = self.on_lists(rows, self.reduction(gather, reduce))
        exchange = self.exchange
        if not exchange.spread:
            return out
        if log_sum:  # only sums over attributes of edges lie beside those over nodes
            return exchange.push_softmax(out, log_sum[0], node_columns(gather, rows, out))
        return unmasked(exchange.push_max(out)) if reduce == "max" else exchange.push_sum(out)

    def widened(self, gather: Gather, rows: Tensor) -> Tensor:
        """Copies are widened as they are read; all others reckon in float32 from here on."""
        return rows.float() if rows.dtype == torch.bfloat16 and not isinstance(gather, Copy) else rows

    def reduction(self, gather: Gather, reduce: Reduce) -> ListWork:
        """What `aggregate` makes of lists: sums or maxima, and on a vertex-cut log-sums of attention beside them."""
        spread = self.exchange.spread
        if isinstance(gather, PairAttention) and spread:
            gather = replace(gather, target=self.exchange.pull(gather.target)[: self.graph.destinations])

        def work(piece: Excerpt, rows: Tensor) -> tuple[Tensor, ...]:
            out, log_sum = Gathering(piece.graph, self.moment, spread).reduce(piece.of(gather), reduce, rows)
            if spread and reduce == "max":  # a zero for "no edge here" must not beat others' negative maxima
                out = out.masked_fill((piece.graph.local_degree == 0)[:, None], -torch.inf)
            return (out, log_sum) if spread and log_sum is not None else (out,)

        return work

    def on_lists(self, rows: Tensor, work: ListWork) -> tuple[Tensor, ...]:
        """What `work` makes of in-edges and the rows of all their sources, here of all destinations at once."""
        return work(Excerpt(self.graph), self.exchange.pull(rows))

    def on_whole_lists(self, rows: Tensor, work: ListWork) -> tuple[Tensor, ...]:
        """`on_lists` for what cannot be joined from pieces of lists; a layer that asks for it has `whole_lists` set."""
        self._need_whole_lists()
        return self.on_lists(rows, work)

    def aggregate_then(self, gather: Gather, reduce: Reduce, node: Node, work: RowWork) -> Node:
        """`aggregate`, and then what is done with each destination's row: here with all of them at once."""
        return work.run(0, node, self.aggregate(gather, reduce, node.rows))

    def sum_copies(self, gather: Copy, reduce: Reduce, rows: Tensor) -> Tensor:
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
        edge_weight, row_scale = product_of(gather.edge_weight, edge_scale), gather.row_scale
        if reduce == "mean":
            row_scale = product_of(row_scale, graph.mean_scale)
        elif graph.row_scale is not None and gather.self_loop:  # the self-loop was not sampled: scale the others only
            edge_weight = product_of(edge_weight, graph.row_scale[graph.edge_destination])
        else:
            row_scale = product_of(row_scale, graph.row_scale)
        own = None
        if gather.self_loop:
            own = graph.spread_own_weight if self.exchange.spread else graph.own_weight
        return {"edge_weight": edge_weight, "source_scale": gather.source_scale, "row_scale": row_scale, "own_weight": own}

    def _need_whole_lists(self) -> None:
        if self.exchange.spread:
            raise InputError(
                "A layer that reads all in-edges of a node together got a vertex-cut, whose lists lie in pieces. Set whole_lists = "
                "True on the layer, so that a run puts them together."
            )

    def _check(self, gather: Gather, reduce: Reduce, rows: Tensor) -> None:
        if isinstance(gather, RelationAttention) and gather.within:
            self._need_whole_lists()
        softmax = isinstance(gather, Attention | PairAttention | RelationAttention)
        if softmax != (reduce == "softmax") and not isinstance(gather, Messages):
            raise ValueError(f"{type(gather).__name__} cannot be reduced by {reduce}")
        if not self.exchange.spread and self.exchange is ALONE and len(rows) != self.graph.sources:
            raise InputError(f"Expected a row for each of {self.graph.sources:,} sources, got {len(rows):,}.")
        if self.exchange.spread and reduce == "mean" and self.graph.degree is None and not isinstance(gather, ByRelation):
            raise InputError("Expected the whole graph's 'degree' for a mean over a vertex-cut, got none.")


def node_columns(gather: Gather, rows: Tensor, out: Tensor) -> int:
    """How many columns of a softmax's sums are over nodes; sums over attributes of edges follow."""
    return rows.shape[1] if isinstance(gather, Attention) else out.shape[1]


def unmasked(maxima: Tensor) -> Tensor:
    """Zero for rows that no worker has an in-edge of."""
    return maxima.masked_fill(maxima == -torch.inf, 0.0)
