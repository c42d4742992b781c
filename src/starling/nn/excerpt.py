"""Some destinations of a local graph with their in-edges, as a local graph of its own, which gives them what the whole gives.

So an engine may compute a layer in pieces, each as soon as the rows that it reads are there, with whatever gather.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.nn.gather import Attention, ByRelation, Copy, Gather, PairAttention
from starling.nn.graph import LocalGraph

Places: TypeAlias = "slice | Tensor"


@dataclass(frozen=True, eq=False)
class Excerpt:
    """Destination i of `graph` is destination `rows[i]` of the whole, its edge k is edge `edges[k]`, source j is `sources[j]`.

    Without places it is the whole.
    """

    graph: LocalGraph
    rows: Places | None = None
    edges: Places | None = None
    sources: Places | None = None

    def of(self, gather: Gather) -> Gather:
        """A gather over the whole graph, as it is over this piece."""
        rows, edges, sources = self.rows, self.edges, self.sources
        if isinstance(gather, Copy | ByRelation):
            return replace(
                gather,
                edge_weight=_some(gather.edge_weight, edges),
                source_scale=_some(gather.source_scale, sources),
                row_scale=_some(gather.row_scale, rows),
            )
        if isinstance(gather, Attention):
            return replace(gather, edge_score=_some(gather.edge_score, edges), edge_rows=_some(gather.edge_rows, edges))
        if isinstance(gather, PairAttention):
            return replace(gather, target=_at(gather.target, rows))
        return gather


def excerpt(graph: LocalGraph, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> Excerpt:
    """The destinations `rows`, ascending, and their in-edges. `sources` are all rows that these read, the destinations first."""
    offsets = graph.offsets.cpu().numpy()
    starts, lengths = offsets[rows], offsets[1:][rows] - offsets[rows]
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    edges: Places
    if _follow_one_another(rows):
        edges = slice(int(starts[0]), int(starts[0] + bounds[-1])) if len(rows) else slice(0, 0)
    else:
        edges = torch.from_numpy(np.repeat(starts - bounds[:-1], lengths) + np.arange(bounds[-1])).to(graph.device)
    neighbours, taken = graph.neighbours[edges], _as_places(sources, graph)
    if not isinstance(taken, slice) or taken.start:
        number = torch.full((graph.sources,), -1, dtype=torch.int32, device=graph.device)
        number[taken] = torch.arange(len(sources), dtype=torch.int32, device=graph.device)
        neighbours = number[neighbours.long()]
    places = _as_places(rows, graph)
    small = LocalGraph(
        torch.from_numpy(bounds).to(graph.device),
        neighbours,
        len(sources),
        int(np.searchsorted(rows, graph.outputs)),
        edge_weight=_some(graph.edge_weight, edges),
        edge_attr=_some(graph.edge_attr, edges),
        edge_type=_some(graph.edge_type, edges),
        degree=_some(graph.degree, taken),
        weighted_degree=_some(graph.weighted_degree, taken),
        relation_degree=_some(graph.relation_degree, places),
        looped=graph.looped if graph.looped is None or not len(graph.looped) else graph.looped[taken],
        row_scale=_some(graph.row_scale, places),
        edge_scale=_some(graph.edge_scale, edges),
        position=graph.row_position[taken],
        counted=_some(graph.counted, places),
    )
    return Excerpt(small, places, edges, taken)


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
