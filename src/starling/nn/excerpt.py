"""Some destinations of a local graph with their in-edges, as a local graph of its own, which gives them what the whole gives.

So an engine may compute a layer in pieces, each as soon as the rows that it reads are there, with whatever gather.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.nn.gather import Attention, ByRelation, Copy, Gather, PairAttention
from starling.nn.graph import LocalGraph
from starling.nn.later_graph import GraphInPlace, Unlisted

Places: TypeAlias = "slice | Tensor"


@dataclass(frozen=True, eq=False)
class Excerpt:
    """Destination i of `graph` is destination `rows[i]` of the `whole`, source j is source `sources[j]`.

    Without places it is the whole.
    """

    graph: LocalGraph
    rows: Places | None = None
    sources: Places | None = None
    whole: LocalGraph | None = None

    @cached_property
    def edges(self) -> Places | None:
        """The numbers of its edges in the whole, list by list."""
        return None if self.whole is None or self.rows is None else _edges_of(self.whole.offsets, self.rows)

    def of(self, gather: Gather) -> Gather:
        """A gather over the whole graph, as it is over this piece."""
        if isinstance(gather, Copy | ByRelation):
            return replace(
                gather,
                edge_weight=self._of_edges(gather.edge_weight),
                source_scale=_some(gather.source_scale, self.sources),
                row_scale=_some(gather.row_scale, self.rows),
            )
        if isinstance(gather, Attention):
            edge_score, edge_rows = (self._of_edges(values) for values in (gather.edge_score, gather.edge_rows))
            return replace(gather, edge_score=edge_score, edge_rows=edge_rows)
        if isinstance(gather, PairAttention):
            return replace(gather, target=_at(gather.target, self.rows))
        return gather

    def _of_edges(self, values: Tensor | None) -> Tensor | None:
        return None if values is None else _at(values, self.edges)


def excerpt(graph: LocalGraph, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> Excerpt:
    """The destinations `rows`, ascending, and their in-edges. `sources` are all rows that these read, the destinations first."""
    places, taken = _as_places(rows, graph), _as_places(sources, graph)
    if isinstance(graph, GraphInPlace):
        return Excerpt(_in_place(graph, rows, sources), places, taken, graph)
    lengths, edges = graph.offsets.diff()[places], _edges_of(graph.offsets, places)
    neighbours = graph.neighbours[edges]
    if not isinstance(taken, slice) or taken.start:
        number = torch.full((graph.sources,), -1, dtype=torch.int32, device=graph.device)
        number[taken] = torch.arange(len(sources), dtype=torch.int32, device=graph.device)
        neighbours = number[neighbours.long()]
    small = LocalGraph(
        torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]),
        neighbours,
        len(sources),
        int(np.searchsorted(rows, graph.outputs)),
        edge_weight=_some(graph.edge_weight, edges),
        edge_attr=_some(graph.edge_attr, edges),
        edge_type=_some(graph.edge_type, edges),
        edge_scale=_some(graph.edge_scale, edges),
        **_row_tables(graph, places, taken),
    )
    return Excerpt(small, places, taken, graph)


def _in_place(graph: GraphInPlace, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> GraphInPlace:
    """A graph of some destinations whose edges are not listed, either."""
    some, tables = graph.where.excerpt(rows, sources), _row_tables(graph, _as_places(rows, graph), _as_places(sources, graph))
    known = Unlisted(len(sources), int(np.searchsorted(rows, graph.outputs)), graph.edge_tables, tables)
    return type(graph)(known, some.lists.entries, lambda: excerpt(graph.listed, rows, sources).graph, some)


def _row_tables(graph: LocalGraph, rows: Places, sources: Places) -> dict[str, Tensor | None]:
    return {
        "degree": _some(graph.degree, sources),
        "weighted_degree": _some(graph.weighted_degree, sources),
        "relation_degree": _some(graph.relation_degree, rows),
        "looped": graph.looped if graph.looped is None or not len(graph.looped) else graph.looped[sources],
        "row_scale": _some(graph.row_scale, rows),
        "position": graph.row_position[sources],
        "counted": _some(graph.counted, rows),
    }


def _edges_of(offsets: Tensor, rows: Places) -> Places:
    """The edges of some rows, list by list."""
    if isinstance(rows, slice):
        return slice(int(offsets[rows.start]), int(offsets[rows.stop]))
    lengths = offsets.diff()[rows]
    before = lengths.cumsum(0) - lengths
    first = torch.repeat_interleave(offsets[rows] - before, lengths)
    return first + torch.arange(len(first), device=offsets.device)


def _follow_one_another(numbers: NDArray[Any]) -> bool:
    return len(numbers) == 0 or (int(numbers[-1] - numbers[0]) == len(numbers) - 1 and bool((np.diff(numbers) == 1).all()))


def _as_places(numbers: NDArray[np.int64], graph: LocalGraph) -> Places:
    """Numbers as a slice where they follow one another: what is read by it is not copied."""
    if _follow_one_another(numbers):
        first = int(numbers[0]) if len(numbers) else 0
        return slice(first, first + len(numbers))
    return torch.from_numpy(numbers).to(graph.device)


def _some(values: Tensor | None, places: Places | None) -> Tensor | None:
    return None if values is None else _at(values, places)


def _at(values: Tensor, places: Places | None) -> Tensor:
    """The values in some places; the very same object for all, since what is kept by identity is to be found again."""
    return values if places is None else values[places]
