"""GCN typed by relation: h W_root + Σ over relations r of D^-1/2 A_r D^-1/2 h W_r + b, with D of the whole graph.

D counts the in-edges of all relations and the self-loop, as plain GCN's does, so that it is never zero: in a relation between two
types the sources have no in-edges. The loop itself is in no relation; the row has W_root in its place.
"""

from __future__ import annotations

from starling.nn.gather import ByRelation
from starling.nn.layer import Node
from starling.nn.layers.gcn import symmetric
from starling.nn.layers.relational import check_relations
from starling.nn.layers.rgcn import RGCN
from starling.nn.view import View


class RelationalGCN(RGCN):
    """RGCN with GCN's scales of both ends in place of means; with `edge_weights` A_r holds the weights and D their sums."""

    def __init__(self, fan_in: int, fan_out: int, relations: int, *, edge_weights: bool = False) -> None:
        check_relations(relations)
        super().__init__(fan_in, fan_out, relations)
        self.reduce, self.edge_weights = "sum", edge_weights

    def gather(self, view: View, node: Node) -> ByRelation:
        """The matrix of each relation, between the scales of the whole graph."""
        whole = symmetric(view, self.edge_weights)
        return ByRelation(self.weight, None, whole.edge_weight, whole.source_scale, whole.row_scale)
