"""A layer's view when a team computes it: sums of own rows are made while others' rows are on their way.

How a sum is made together is in `team_sum.py`; how rows that are complete go on to the next layer, in `released.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from starling.engine.hybrid.computing.grouped_rows import compute_and_push, compute_by_groups, then_by_groups
from starling.engine.hybrid.computing.pushed_sum import sum_and_push
from starling.engine.hybrid.computing.released import has_left, release, worth_releasing
from starling.engine.hybrid.computing.team_sum import SumTogether, TeamSum
from starling.engine.hybrid.layers.plan import WorkerLayer
from starling.engine.hybrid.layers.row_groups import RowGroup, rows_follow_one_another
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.engine.hybrid.messages.push_softmax import SoftmaxPush
from starling.engine.hybrid.messages.pushes import MaxPush, Push, SumPush
from starling.engine.hybrid.messages.row_messages import Coming
from starling.kernels.spmm import Coefficients
from starling.nn.gather import Copy, Gather, Reduce
from starling.nn.ops.arrays import accumulator, applied, array, has_kernels
from starling.nn.row_work import Node, RowWork
from starling.nn.view import ListWork, Size, View, node_columns, unmasked

_COLUMNS_AT_ONCE = 32
"""Of input features whose sums are kept."""


@dataclass(eq=False)
class TeamView(View):
    """A view whose exchange is a team's. `whole` are the numbers of this layer over all workers."""

    whole: Size = field(default_factory=lambda: Size(0, 0, 0))
    overlap: bool = True
    layer: WorkerLayer | None = None

    @property
    def size(self) -> Size:
        """Rows and edges over all workers."""
        return self.whole

    def aggregate(self, gather: Gather, reduce: Reduce, rows: Tensor) -> Tensor:
        """On a vertex-cut, where it pays, what mirrors have made goes to their owners while own rows are computed."""
        if not self.exchange.spread or _is_sum(gather, reduce):
            return super().aggregate(gather, reduce, rows)
        given = self.widened(gather, rows)
        groups = self.groups(given)
        if not any(group.pushed for group in groups):
            return super().aggregate(gather, reduce, rows)
        self._check(gather, reduce, rows)
        exchange, work = self.exchange, self.reduction(gather, reduce)
        assert isinstance(exchange, TeamExchange)

        def push_of(mirrors: tuple[Tensor, ...]) -> Push:
            if reduce == "softmax":
                out, log_sum = mirrors
                return SoftmaxPush(exchange, (out, log_sum), node_columns(gather, given, out))
            return MaxPush(exchange) if reduce == "max" else SumPush(exchange)

        whole = compute_and_push(exchange, groups, given, work, push_of, overlap=self.overlap)
        return unmasked(whole) if reduce == "max" else whole

    def aggregate_then(self, gather: Gather, reduce: Reduce, node: Node, work: RowWork) -> Node:
        """Blocks of rows go on as soon as they are complete: of sums split by owners, or groups of any other gather's rows.

        The latter where every group is one stretch of rows, with all their in-edges here.
        """
        together = self._together(gather, reduce, node.rows)
        if together is None:
            assert not has_left(node), "rows have left for a sum, which another kind of gather reads"
            return self._then_by_groups(gather, reduce, node, work)
        if self.exchange.spread or not (has_left(node) or worth_releasing(together)):
            return super().aggregate_then(gather, reduce, node, work)
        known = self.aggregate(gather, reduce, node.rows) if self._is_here(node.rows) else None
        following = work.reader.exchange if work.reader is not None else None
        return release(together, node, work, known, following if isinstance(following, TeamExchange) else None)

    def _then_by_groups(self, gather: Gather, reduce: Reduce, node: Node, work: RowWork) -> Node:
        rows = self.widened(gather, node.rows)
        if self.exchange.spread or _is_sum(gather, reduce) or not rows_follow_one_another(self.groups(rows)):
            return super().aggregate_then(gather, reduce, node, work)
        self._check(gather, reduce, rows)
        return then_by_groups(node, rows, work, self.reduction(gather, reduce), self.on_lists)

    def sum_copies(self, gather: Copy, reduce: Reduce, rows: Tensor) -> Tensor:
        """A sum or mean of copied rows, split by who owns the source; on a vertex-cut joined with others' sums."""
        together = self._together(gather, reduce, rows)
        if together is None:
            return super().sum_copies(gather, reduce, rows)
        if self._is_known(rows):
            partial = together.whole(rows, _here_already(together.exchange))
        elif self.is_constant(rows):
            partial = _sum_once(together, rows)
        elif self.exchange.spread:
            return sum_and_push(together, rows)
        else:
            partial = applied(SumTogether, rows, together, together.exchange.calls.next_tag())
        return self.exchange.push_sum(partial)

    def on_lists(self, rows: Tensor, work: ListWork) -> tuple[Tensor, ...]:
        """Group by group, each when the rows that it reads have come, where that pays."""
        groups, exchange = self.groups(rows), self.exchange
        if not groups:
            return super().on_lists(rows, work)
        assert isinstance(exchange, TeamExchange)
        return compute_by_groups(exchange, groups, rows, work, overlap=self.overlap)

    def groups(self, rows: Tensor) -> tuple[RowGroup, ...]:
        """The destinations by whom they wait for; none where that would not pay, or nothing comes."""
        exchange, layer = self.exchange, self.layer
        if not isinstance(exchange, TeamExchange) or layer is None or not has_kernels(rows) or self._is_known(rows):
            return ()
        return layer.groups(self.graph, exchange.senders)

    def _together(self, gather: Gather, reduce: Reduce, rows: Tensor) -> TeamSum | None:
        """The sum that is asked for, as the team makes it; None for what is computed when all rows are here."""
        exchange, layer = self.exchange, self.layer
        if not isinstance(exchange, TeamExchange) or layer is None or not isinstance(gather, Copy) or reduce == "max":
            return None
        weight = gather.edge_weight
        if (weight is not None and weight.requires_grad) or not has_kernels(rows):
            return None
        in_split = layer.edges.scaled and weight is None  # it has the scales of edges left out
        factors = self.factors(gather, reduce, None if in_split else self.graph.edge_scale)
        f = {name: array(value, accumulator(rows)) for name, value in factors.items()}
        coefficients = Coefficients(f["edge_weight"], f["source_scale"], f["row_scale"], f["own_weight"])
        return TeamSum(exchange, layer.edges.split(numbered=len(coefficients.edge) > 0), coefficients, self.overlap)

    def _is_here(self, rows: Tensor) -> bool:
        """Whether nothing need come for a sum of these rows: input features whose sums, or others' rows, are kept."""
        return self.is_constant(rows) or self._is_known(rows)

    def _is_known(self, rows: Tensor) -> bool:
        """Whether these are input features of which others' rows are kept."""
        known = self.exchange.known if isinstance(self.exchange, TeamExchange) else None
        return known is not None and rows is known[0]


def _is_sum(gather: Gather, reduce: Reduce) -> bool:
    """Whether this is a sum or mean of copied rows, which is a sparse product."""
    return isinstance(gather, Copy) and reduce != "max"


def _sum_once(together: TeamSum, x: Tensor) -> Tensor:
    """A sum that will be kept, some columns at a time: the rows of all mirrors at once would be the most that a run holds."""
    out = torch.empty(together.split.inner.rows, x.shape[1], dtype=accumulator(x))
    for first in range(0, x.shape[1], _COLUMNS_AT_ONCE):
        columns = slice(first, first + _COLUMNS_AT_ONCE)
        piece = x[:, columns].contiguous()
        out[:, columns] = together.whole(piece, together.start(piece, together.exchange.calls.next_tag(), counted=first == 0))
    return out


def _here_already(exchange: TeamExchange) -> Coming:
    """Input rows of mirrors that were fetched when the run began."""
    assert exchange.known is not None
    offsets, mirrors = exchange.traffic.mirror_offsets, exchange.known[1]
    spans = ((peer, offsets[peer], offsets[peer + 1]) for peer in exchange.team.peers)
    return ((peer, mirrors[start:stop]) for peer, start, stop in spans if stop > start)
