"""The edges of each relation as a small graph of their own, on which any layer runs as if there were no others.

Its destinations are the rows with an in-edge of the relation, its sources these rows and the relation's other sources, so that work
and memory are those of (row, relation) pairs, however many relations there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from starling.nn.graph import LocalGraph
from starling.nn.relations import Relation, relations_of


@dataclass(frozen=True, eq=False)
class RelationBlock:
    """One relation: destination i of `graph` is row `rows[i]` of the whole, source j is row `sources[j]`."""

    rows: Tensor
    sources: Tensor
    graph: LocalGraph


def relation_blocks(graph: LocalGraph, relations: int) -> list[RelationBlock]:
    """A block for each relation, made once a graph."""
    kept: dict[int, list[RelationBlock]] = graph.__dict__.setdefault("_relation_blocks", {})
    if relations not in kept:
        kept[relations] = [_block(graph, part) for part in relations_of(graph, relations)]
    return kept[relations]


def _block(graph: LocalGraph, part: Relation) -> RelationBlock:
    rows, neighbours, device = part.rows.cpu().numpy(), part.edges.neighbours, graph.device
    others = np.setdiff1d(neighbours, rows)
    sources = np.concatenate([rows, others])
    place = np.searchsorted(rows, neighbours)
    own = rows[np.minimum(place, len(rows) - 1)] == neighbours if len(rows) else np.zeros(0, np.bool_)
    place = np.where(own, place, len(rows) + np.searchsorted(others, neighbours)).astype(np.int32)
    index, numbers = torch.from_numpy(sources).to(device), part.numbers
    weight, scale = _taken(graph.edge_weight, numbers), _taken(graph.edge_scale, numbers)
    row_scale = _taken(graph.row_scale, part.rows)
    lengths = torch.from_numpy(np.diff(part.edges.offsets)).to(device)
    small = LocalGraph(
        torch.from_numpy(part.edges.offsets).to(device),
        torch.from_numpy(place).to(device),
        len(sources),
        len(rows),
        edge_weight=weight,
        edge_attr=_taken(graph.edge_attr, numbers),
        degree=_stands_for(lengths, None, scale, row_scale, len(sources)),
        weighted_degree=None if weight is None else _stands_for(lengths, weight, scale, row_scale, len(sources)),
        row_scale=row_scale,
        edge_scale=scale,
        position=graph.row_position[index],
    )
    return RelationBlock(part.rows, index, small)


def _stands_for(lengths: Tensor, weight: Tensor | None, scale: Tensor | None, row_scale: Tensor | None, sources: int) -> Tensor:
    """Edges of each destination (or their weight), sampled ones counting as what they stand for: a mean is one of those here."""
    total = lengths.float()
    if weight is not None or scale is not None:
        each = torch.ones(int(lengths.sum()), device=lengths.device) if weight is None else weight.float()
        each = each if scale is None else each * scale
        total = torch.segment_reduce(each, "sum", lengths=lengths, unsafe=True, initial=0.0)
    if row_scale is not None:
        total = total * row_scale
    return torch.cat([total, total.new_zeros(sources - len(total))])


def _taken(values: Tensor | None, index: Tensor) -> Tensor | None:
    return None if values is None else values[index]
