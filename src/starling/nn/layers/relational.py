"""Any layer made typed by relation: h W_root + b + Σ over relations r of layer_r(h), each relation with weights of its own.

A relation's layer computes the rows that have an in-edge of it; other rows get nothing from it. The loop is over relations, and
each runs the layer's own fused kernels on the relation's edges. Neighbours' rows are asked for once for all relations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from starling.core.errors import InputError
from starling.nn.excerpt import Excerpt
from starling.nn.layers.dense import Dense
from starling.nn.moment import Moment
from starling.nn.relation_blocks import relation_blocks
from starling.nn.relations import gathered
from starling.nn.view import View


def check_relations(relations: int) -> None:
    """Refuse a graph without edge types."""
    if relations < 1:
        raise InputError(
            "Expected edge types for a relational model, got a graph without. Import it with types, or leave relational out."
        )


class Relational(nn.Module):
    """A layer for each relation, made by `make`, and a matrix for the row itself."""

    whole_lists = True

    def __init__(self, fan_in: int, fan_out: int, relations: int, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        check_relations(relations)
        self.root = Dense(fan_in, fan_out)
        self.relations = nn.ModuleList(make() for _ in range(relations))
        self._name = ""

    @property
    def name(self) -> str:
        """Names the streams of random numbers; each relation has its own."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name
        for number, layer in enumerate(self.relations):
            layer.name = f"{name}/relation-{number}"  # type: ignore[assignment]

    @property
    def added_last(self) -> nn.Parameter:
        """The bias of the row itself; a relation's is added only to rows that have edges of it."""
        return self.root.bias

    def forward(self, view: View, h: Tensor) -> Tensor:
        """Rows of the sources → rows of the destinations."""
        (by_relation,) = view.on_whole_lists(h, partial(self._on_lists, view.moment))
        out: Tensor = self.root(view, h) + by_relation
        return out

    def _on_lists(self, moment: Moment, piece: Excerpt, rows: Tensor) -> tuple[Tensor, ...]:
        """What all relations give some destinations, from the rows of all their sources."""
        graph = piece.graph
        # Tied to the rows even where there is no edge: a backward pass that others wait in must come by here too.
        out = self.root.bias.new_zeros(graph.destinations, self.root.fan_out) + rows[:0].sum()
        present = [
            (layer, block)
            for layer, block in zip(self.relations, relation_blocks(graph, len(self.relations)), strict=True)
            if len(block.rows)
        ]
        inputs = gathered(rows, [block.sources for _, block in present])
        given = [
            layer(View(block.graph, moment=moment), values) for (layer, block), values in zip(present, inputs, strict=True)
        ]
        return (out.index_add(0, torch.cat([block.rows for _, block in present]), torch.cat(given)) if given else out,)
