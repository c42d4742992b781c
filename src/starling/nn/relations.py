"""RGCN's gather: neighbours are summed relation by relation, and each relation's sums multiplied by its matrix.

The loop is over relations, not edges. Only rows that have edges of a relation take part in its product, so that work and memory
are those of (row, relation) pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from starling.core.errors import InputError
from starling.kernels.adjacency import Adjacency, adjacency
from starling.nn.graph import LocalGraph
from starling.nn.ops.arrays import split_columns
from starling.nn.ops.sums import sum_neighbours


@dataclass(frozen=True, eq=False)
class Relation:
    """The edges of one relation: row i of `edges` is destination `rows[i]`; `scale` [rows] makes its sum a mean."""

    rows: Tensor
    edges: Adjacency
    numbers: Tensor
    scale: Tensor


def split_by_relation(graph: LocalGraph, relations: int) -> list[Relation]:
    """The edges of each relation, rows without any left out."""
    if graph.edge_type is None:
        raise InputError("Expected a relation type for every edge, got a graph without edge types. Import it with edge types.")
    kinds, rows = graph.edge_type.numpy(), graph.edge_destination.numpy()
    if len(kinds) and not 0 <= int(kinds.min()) <= int(kinds.max()) < relations:
        raise InputError(f"Expected edge types in [0, {relations}), got {int(kinds.min())} … {int(kinds.max())}.")
    order = np.argsort(kinds, kind="stable")
    bounds = np.searchsorted(kinds[order], np.arange(relations + 1))
    neighbours, parts = graph.neighbours.numpy(), []
    for relation in range(relations):
        numbers = order[bounds[relation] : bounds[relation + 1]]
        present, counts = np.unique(rows[numbers], return_counts=True)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        index = torch.from_numpy(present)
        degree = torch.from_numpy(counts)
        if graph.relation_degree is not None:
            degree = graph.relation_degree[index, relation]
        scale = 1.0 / degree.float()
        if graph.relation_degree is not None and graph.row_scale is not None:
            scale = scale * graph.row_scale[index]
        parts.append(Relation(index, adjacency(offsets, neighbours[numbers], graph.sources), torch.from_numpy(numbers), scale))
    return parts


def sum_relations(
    parts: list[Relation], weight: Tensor, x: Tensor, rows: int, edge_weight: Tensor | None, mean: bool
) -> Tensor:
    """Σ over relations of (mean or sum over its neighbours) @ weight[r], [rows, F']."""
    blocks = weight.shape[1] if weight.dim() == 4 else 1
    # Tied to `x` even where there is no edge: a backward pass that others wait in must come by here too.
    out = x.new_zeros(rows, weight.shape[-1] * blocks) + x[:0].sum()
    for relation, part in enumerate(parts):
        if len(part.rows) == 0:
            continue
        scaled = None if edge_weight is None else edge_weight[part.numbers]
        sums = sum_neighbours(part.edges, x, edge_weight=scaled, row_scale=part.scale if mean else None)
        if weight.dim() == 4:
            cells = split_columns(sums, blocks).transpose(0, 1)
            product = (cells @ weight[relation]).transpose(0, 1).flatten(1)
        else:
            product = sums @ weight[relation]
        out = out.index_add(0, part.rows, product)
    return out
