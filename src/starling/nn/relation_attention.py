"""RGAT's gather: attention over edges of many relations at once, one fused softmax for all of them.

Each source's row is multiplied by the matrix of every relation it feeds, so that a (source, relation) pair is a row of its own;
edges then name pairs, and the kernels of GAT do the rest. A destination's own part of a score is a product with F × heads numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from starling.nn.gather import RelationAttention
from starling.nn.graph import LocalGraph
from starling.nn.ops import attend, plain
from starling.nn.ops.arrays import has_kernels, split_columns
from starling.nn.relations import Relation, gathered, relations_of


@dataclass(frozen=True, eq=False)
class RelationPairs:
    """Edges between (source, relation) pairs and destinations, or with `within` (destination, relation) pairs.

    Pairs are listed relation by relation. `edge_target` [E] is the destination pair of each edge of `graph`, `row` [P] the row of
    each destination pair. `source_position` [P] keys dropout: another number for each relation.
    """

    parts: list[Relation]
    graph: LocalGraph
    edge_target: Tensor
    row: Tensor
    source_position: Tensor
    target_position: Tensor


def relation_pairs(graph: LocalGraph, relations: int, *, within: bool) -> RelationPairs:
    """The pairs of a graph, made once a graph."""
    kept: dict[tuple[int, bool], RelationPairs] = graph.__dict__.setdefault("_relation_pairs", {})
    if (relations, within) not in kept:
        kept[relations, within] = _pairs(graph, relations_of(graph, relations), within)
    return kept[relations, within]


def _pairs(graph: LocalGraph, parts: list[Relation], within: bool) -> RelationPairs:
    source, target = np.empty(graph.edges, np.int32), np.empty(graph.edges, np.int64)
    sources = targets = 0
    for part in parts:
        numbers = part.numbers.cpu().numpy()
        source[numbers] = sources + part.compact.neighbours
        target[numbers] = targets + np.repeat(np.arange(len(part.rows)), np.diff(part.edges.offsets))
        sources, targets = sources + len(part.sources), targets + len(part.rows)
    row = torch.cat([graph.offsets[:0], *(part.rows for part in parts)])
    offsets = graph.offsets
    if within:  # edges relation by relation, as the destination pairs are
        order = np.concatenate([np.empty(0, np.int64), *(part.numbers.cpu().numpy() for part in parts)])
        source, target = source[order], target[order]
        offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(np.bincount(target, minlength=targets))])).to(graph.device)
    position = graph.row_position
    keyed = [position[part.sources] * len(parts) + number for number, part in enumerate(parts)]
    edge_source, edge_target = (torch.from_numpy(ends).to(graph.device) for ends in (source, target))
    pairs = LocalGraph(offsets, edge_source, sources, len(offsets) - 1)
    own = position[row] if within else position[: graph.destinations]
    return RelationPairs(parts, pairs, edge_target, row, torch.cat([position[:0], *keyed]), own)


def attend_relations(graph: LocalGraph, gather: RelationAttention, rows: Tensor, key: np.uint64) -> tuple[Tensor, Tensor]:
    """Weighted sums [D, H·F'] of all rows, and their log-sums [D, H], which mean nothing where the softmax is within relations."""
    pairs = relation_pairs(graph, len(gather.weight), within=gather.within)
    heads = gather.source_vector.shape[1]
    present = [number for number, part in enumerate(pairs.parts) if len(part.rows)]
    if not present:  # tied to the rows and weights even so: others may wait for their gradients
        nothing = rows[:0].sum() + gather.weight[:0].sum()
        out = rows.new_zeros(graph.destinations, gather.weight.shape[2]) + nothing
        return out, rows.new_full((graph.destinations, heads), -torch.inf)
    given = gathered(rows, [index for number in present for index in (pairs.parts[number].sources, pairs.parts[number].rows)])
    matrices, sources, targets = gather.weight.unbind(), gather.source_vector.unbind(), gather.target_vector.unbind()
    values, source, target = [], [], []
    for number, from_rows, to_rows in zip(present, given[::2], given[1::2], strict=True):
        z = from_rows @ matrices[number]
        values.append(z)
        source.append((split_columns(z, heads) * sources[number]).sum(-1))
        target.append(to_rows @ (split_columns(matrices[number], heads) * targets[number]).sum(-1))
    edge_score = torch.cat(target).index_select(0, pairs.edge_target)
    out, log_sum = _attend(pairs, gather, torch.cat(values), torch.cat(source), edge_score, key)
    if gather.within:
        out = out.new_zeros(graph.destinations, out.shape[1]).index_add(0, pairs.row, out)
    return out, log_sum


def _attend(
    pairs: RelationPairs, gather: RelationAttention, z: Tensor, source: Tensor, edge_score: Tensor, key: np.uint64
) -> tuple[Tensor, Tensor]:
    graph = pairs.graph
    dropout = None
    if gather.dropout:
        of_source, of_target = (keys.cpu().numpy() for keys in (pairs.source_position, pairs.target_position))
        dropout = attend.EdgeDropout(gather.dropout, key, of_source, of_target)
    if has_kernels(z):
        nothing = z.new_zeros(graph.destinations, source.shape[1])
        return attend.attend_additive(graph.adjacency, z, source, nothing, gather.slope, edge_score=edge_score, dropout=dropout)
    score = leaky_relu(source[graph.neighbours.long()] + edge_score, gather.slope)
    factor = None
    if dropout is not None:
        ones = torch.ones(score.shape)
        dropout.apply(graph.adjacency, ones.numpy(), ones.numpy())
        factor = ones.to(score)
    return plain.attend(graph, z, score, edge_factor=factor)
