"""RGCN's gather: neighbours are summed relation by relation, with a product by the relation's matrix after or before the sum.

The loop is over relations, not edges. After the sum only rows that have edges of a relation take part in its product, before it
only rows that are sources of one, so that work and memory are those of (row, relation) pairs. Which of the two is decided for each
relation by its cost; nothing is sent between workers in here, so they need not decide alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.core.errors import InputError
from starling.kernels.adjacency import Adjacency, adjacency
from starling.nn.graph import LocalGraph
from starling.nn.ops import plain, sums
from starling.nn.ops.arrays import has_kernels, split_columns
from starling.plan.linear_work import LinearWork


@dataclass(frozen=True, eq=False)
class Relation:
    """The edges of one relation: row i of `edges` is destination `rows[i]`; `scale` [rows] makes its sum a mean."""

    rows: Tensor
    edges: Adjacency
    numbers: Tensor
    scale: Tensor

    @cached_property
    def _distinct(self) -> tuple[Tensor, Adjacency]:
        present, place = np.unique(self.edges.neighbours, return_inverse=True)
        index = torch.from_numpy(present).to(self.rows.device)
        return index, adjacency(self.edges.offsets, place.astype(np.int32), len(present))

    @property
    def sources(self) -> Tensor:
        """The rows with an edge of this relation going out, each once."""
        return self._distinct[0]

    @property
    def compact(self) -> Adjacency:
        """`edges` with neighbours numbered among `sources`."""
        return self._distinct[1]

    @cached_property
    def _graph(self) -> LocalGraph:
        edges, device = self.compact, self.rows.device
        offsets, neighbours = (torch.from_numpy(values).to(device) for values in (edges.offsets, edges.neighbours))
        return LocalGraph(offsets, neighbours, edges.columns, edges.rows)

    def sum(self, x: Tensor, **factors: Tensor | None) -> Tensor:
        """The sum over neighbours of the rows of `sources` (`sums.sum_neighbours`), a row for each of `rows`."""
        if has_kernels(x):
            return sums.sum_neighbours(self.compact, x, **factors)
        return plain.sum_neighbours(self._graph, x, **factors)


def checked_types(graph: LocalGraph, relations: int) -> NDArray[Any]:
    """The relation of every edge [E]."""
    if graph.edge_type is None:
        raise InputError("Expected a relation type for every edge, got a graph without edge types. Import it with edge types.")
    kinds: NDArray[Any] = graph.edge_type.cpu().numpy()
    if len(kinds) and not 0 <= int(kinds.min()) <= int(kinds.max()) < relations:
        raise InputError(f"Expected edge types in [0, {relations}), got {int(kinds.min())} … {int(kinds.max())}.")
    return kinds


def split_by_relation(graph: LocalGraph, relations: int) -> list[Relation]:
    """The edges of each relation, rows without any left out."""
    kinds, rows, device = checked_types(graph, relations), graph.edge_destination.cpu().numpy(), graph.device
    order = np.argsort(kinds, kind="stable")
    bounds = np.searchsorted(kinds[order], np.arange(relations + 1))
    parts = []
    for relation in range(relations):
        numbers = order[bounds[relation] : bounds[relation + 1]]
        present, counts = np.unique(rows[numbers], return_counts=True)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        index, degree, entries = (torch.from_numpy(values).to(device) for values in (present, counts, numbers))
        if graph.relation_degree is not None:
            degree = graph.relation_degree[index, relation]
        elif graph.edge_scale is not None:  # edges that stand for others, too, count as so many: a weighted mean of those here
            degree = torch.segment_reduce(graph.edge_scale[entries], "sum", lengths=degree, unsafe=True)
        edges = adjacency(offsets, graph.neighbours_at(entries).cpu().numpy(), graph.sources)
        parts.append(Relation(index, edges, entries, 1.0 / degree.float()))
    return parts


def relations_of(graph: LocalGraph, relations: int) -> list[Relation]:
    """The edges of each relation, made once a graph."""
    kept: dict[int, list[Relation]] = graph.__dict__.setdefault("_relations", {})
    if relations not in kept:
        kept[relations] = split_by_relation(graph, relations)
    return kept[relations]


def sum_relations(
    parts: list[Relation],
    weight: Tensor,
    x: Tensor,
    rows: int,
    edge_weight: Tensor | None,
    mean: bool,
    source_scale: Tensor | None = None,
    row_scale: Tensor | None = None,
) -> Tensor:
    """Σ over relations of (mean or sum over its neighbours) @ weight[r], [rows, F']; factors are those of `gather.Copy`."""
    blocks = weight.shape[1] if weight.dim() == 4 else 1
    # Tied to `x` and `weight` even where there is no edge: a backward pass that others wait in must come by here too.
    out = x.new_zeros(rows, weight.shape[-1] * blocks) + (x[:0].sum() + weight[:0].sum())
    present = [(part, matrix) for part, matrix in zip(parts, weight, strict=True) if len(part.rows)]
    given = gathered(x, [part.sources for part, _ in present])
    found = []
    for (part, matrix), values in zip(present, given, strict=True):
        whole = None if row_scale is None else row_scale[part.rows]
        factors = {
            "edge_weight": None if edge_weight is None else edge_weight[part.numbers],
            "source_scale": None if source_scale is None else source_scale[part.sources],
            "row_scale": whole if not mean else part.scale if whole is None else whole * part.scale,
        }
        if _product_first(part, matrix, x):
            found.append(part.sum(_product(values, matrix), **factors))
        else:
            found.append(_product(part.sum(values, **factors), matrix))
    return out.index_add(0, torch.cat([part.rows for part, _ in present]), torch.cat(found)) if found else out


def gathered(x: Tensor, index: Sequence[Tensor]) -> Sequence[Tensor]:
    """The rows of each list, out of one gather: its gradient goes back in one piece, however many lists there are."""
    if not index:
        return ()
    return torch.split(x.index_select(0, torch.cat(list(index))), [len(rows) for rows in index])


def _product(x: Tensor, matrix: Tensor) -> Tensor:
    """x @ matrix [F, F'], or its diagonal blocks [B, F/B, F'/B] each with its columns of x."""
    if matrix.dim() == 2:
        return x @ matrix
    cells = split_columns(x, len(matrix)).transpose(0, 1)
    return (cells @ matrix).transpose(0, 1).flatten(1)


def _product_first(part: Relation, matrix: Tensor, x: Tensor) -> bool:
    fan_out, backward = matrix.numel() // matrix.shape[-2], torch.is_grad_enabled()
    if fan_out >= x.shape[1]:  # sums of narrower rows, and as a rule of fewer
        return False
    edges, sources = len(part.edges.neighbours), len(part.sources)
    work = LinearWork(edges, sources, len(part.rows), x.shape[1], fan_out, matrix.numel())
    return work.product_first(backward=backward, passes=2 if backward and x.requires_grad else 1)
