"""Outputs of all nodes with full neighbourhoods, one layer at a time, in bounded memory.

A mini-batch forward computes a node's inner layers once for every target near it; layer by layer each is computed once. Only one
layer's rows are kept beside the next one's (all layers' with jumping knowledge), in memory or in scratch files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from starling.engine.row_table import RowTable
from starling.engine.source import GraphSource
from starling.kernels.frontier import FrontierPool, cut_by_sources
from starling.nn.graph import LocalGraph, loops_among
from starling.nn.model import LayeredModel
from starling.nn.pyg import PygLayer
from starling.nn.view import View

_EDGE_BYTES = 16
"""Of the list of a block while it is renumbered."""


@dataclass(frozen=True)
class Inference:
    """Runs a model over all nodes of one graph, within about `memory` bytes beside the graph itself.

    Where the whole graph fits at once, aggregates of constant features are kept from one evaluation to the next.
    """

    source: GraphSource
    memory: int
    device: str = "cpu"
    reuse: bool = True

    @torch.no_grad()
    def outputs(self, model: nn.Module) -> RowTable:
        """What the model gives for every node [V, outputs]; the model is in training mode again afterwards if it was before."""
        training = model.training
        model.eval()
        try:
            if not isinstance(model, LayeredModel) or self._fits(model):
                return self._at_once(model)
            return self._layer_by_layer(model)
        finally:
            model.train(training)

    def _fits(self, model: nn.Module) -> bool:
        columns, source = max(self.source.features.width, widest(model)), self.source
        rows = source.nodes * (source.features.width + 4 * columns)
        return 4 * (rows + len(source.incoming.neighbours) * numbers_an_edge(model)) <= self.memory

    def _at_once(self, model: nn.Module) -> RowTable:
        graph, x, constants = self.source.whole, self.source.x, self.source.constants(keep=self.reuse)
        if self.device != "cpu":
            graph, x, constants = graph.to(self.device), x.to(self.device), None
        found: Tensor = model(View(graph, constants=constants), x)
        table = RowTable(len(found), found.shape[1], memory=self.memory)
        table.write(0, found.float().cpu().numpy())
        return table

    def _layer_by_layer(self, model: LayeredModel) -> RowTable:
        kept: list[RowTable] = []
        for index in range(model.layer_count):
            last = index == model.layer_count - 1
            kept.append(self._layer(model, index, kept, last))
            if not model.keeps_all:
                del kept[:-1]
        return kept[-1]

    def _layer(self, model: LayeredModel, index: int, kept: list[RowTable], last: bool) -> RowTable:
        """Rows of all nodes after layer `index`, or the outputs after the last one."""
        table: RowTable | None = None
        width = kept[-1].width if index else self.source.features.width
        widths = max(width, widest(model)), numbers_an_edge(model)
        for start, stop, rows, graph in row_blocks(self.source, self.source.nodes, *widths, self.memory // 4):
            inputs = self.source.features.rows(rows) if index == 0 else kept[-1].rows(rows)
            view = View(graph if self.device == "cpu" else graph.to(self.device))
            given = model.layer(index, view, torch.from_numpy(inputs).to(self.device))
            if last:
                earlier = (
                    [torch.from_numpy(layer.read(start, stop)).to(self.device) for layer in kept] if model.keeps_all else []
                )
                given = model.finish(view, [*earlier, given])
            if table is None:
                table = RowTable(self.source.nodes, given.shape[1], memory=self.memory // 4)
            table.write(start, given.float().cpu().numpy())
        return table if table is not None else RowTable(0, 1, memory=0)


def row_blocks(
    source: GraphSource, rows: int, width: int, an_edge: int, memory: int
) -> Iterator[tuple[int, int, NDArray[np.int64], LocalGraph]]:
    """Ranges of the first `rows` rows that fit `memory`, each with sources and graph.

    A source of their in-edges has `width` numbers, an edge `an_edge` beside its place in the lists.
    """
    incoming = source.incoming
    room = max(1, memory // (4 * width * 2))  # rows read, and as many made
    edges = max(1, memory // (_EDGE_BYTES + 4 * an_edge))
    bounds = cut_by_sources(incoming.offsets[: rows + 1], incoming.neighbours, room, edges)
    pool = FrontierPool(source.nodes)
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        yield start, stop, *_block(source, start, stop, pool)


def _block(source: GraphSource, start: int, stop: int, pool: FrontierPool) -> tuple[NDArray[np.int64], LocalGraph]:
    """Rows start … stop − 1 with all their in-edges; sources are these rows, then their other neighbours as they appear."""
    offsets = source.incoming.offsets
    first, end = int(offsets[start]), int(offsets[stop])
    with pool.frontier(np.arange(start, stop)) as frontier:
        neighbours = frontier.extend(source.incoming.neighbours[first:end])
        rows = frontier.rows.copy()
    index = torch.from_numpy(rows)
    graph = LocalGraph(
        torch.from_numpy(offsets[start : stop + 1] - first),
        torch.from_numpy(neighbours),
        len(rows),
        stop - start,
        degree=source.degree[index],
        weighted_degree=None if source.weighted_degree is None else source.weighted_degree[index],
        looped=loops_among(source.looped, index),
        position=torch.from_numpy(source.position_of(rows)),
        **{f"edge_{name}": table[first:end] for name, table in source.edge_tables.items()},
    )
    return rows, graph


def numbers_an_edge(model: nn.Module) -> int:
    """Numbers that a layer may hold for every edge at once: scores and weights of attention; PyG's messages, there and scaled."""
    heads = max((int(getattr(layer, "heads", 0)) for layer in model.modules()), default=0)
    return 3 * heads + (2 * widest(model) if any(isinstance(layer, PygLayer) for layer in model.modules()) else 0)


def widest(model: nn.Module) -> int:
    """The widest rows a layer may make, going by its weights."""
    return max((max(parameter.shape, default=1) for parameter in model.parameters()), default=1)
