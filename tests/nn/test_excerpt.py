"""Some destinations of a graph as a graph of their own: whatever a layer reads of it is what the whole gives these rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.nn.excerpt import excerpt
from starling.nn.gather import ByRelation, Copy, Gather, Messages, Reduce
from starling.nn.graph import local_graph
from starling.nn.view import View

# Rows 1 and 3 of four destinations hear rows 4, 0 and 3; 1 and 5. Six rows in all.
OFFSETS, NEIGHBOURS = torch.tensor([0, 1, 4, 5, 7]), torch.tensor([2, 4, 0, 3, 1, 1, 5])
ROWS, SOURCES = np.array([1, 3]), np.array([1, 3, 0, 4, 5])


@pytest.mark.parametrize("rows", [ROWS, np.array([1, 2, 3])])
def test_tables_by_hand(rows: NDArray[np.int64]) -> None:
    sources = np.concatenate([rows, np.setdiff1d(np.arange(6), rows)])
    graph = local_graph(
        OFFSETS,
        NEIGHBOURS,
        6,
        counted=torch.tensor([1.0, 2.0, 3.0, 8.0]),
        row_scale=torch.tensor([1.0, 2.0, 3.0, 4.0]),
        edge_weight=torch.arange(7.0),
        degree=torch.arange(6) + 1,
        looped=torch.tensor([False, True, False, True, False, True]),
        position=torch.arange(6) * 10,
    )
    small = excerpt(graph, rows, sources).graph
    assert small.mean_scale.tolist() == pytest.approx([1 / {1: 2, 2: 3, 3: 8}[row] for row in rows.tolist()])
    assert small.row_scale is not None
    assert small.row_scale.tolist() == (rows + 1).tolist()
    assert small.edge_weight is not None
    edges = {1: [1.0, 2.0, 3.0], 2: [4.0], 3: [5.0, 6.0]}
    assert small.edge_weight.tolist() == [weight for row in rows.tolist() for weight in edges[row]]
    assert small.degree is not None
    assert small.degree.tolist() == (sources + 1).tolist()
    assert small.looped is not None
    assert small.looped.tolist() == [bool(source % 2) for source in sources]
    assert small.row_position.tolist() == (sources * 10).tolist()
    assert torch.from_numpy(sources)[small.neighbours.long()].tolist() == [
        int(neighbour) for row in rows for neighbour in NEIGHBOURS[int(OFFSETS[row]) : int(OFFSETS[row + 1])]
    ]


def by_relation() -> ByRelation:
    weight, scale = torch.linspace(1, 2, 7), torch.linspace(0.5, 1, 6)
    return ByRelation(
        torch.eye(3).repeat(2, 1, 1) * torch.tensor([1.0, 2.0])[:, None, None],
        edge_weight=weight,
        source_scale=scale,
        row_scale=torch.linspace(2, 3, 4),
    )


GATHERS: dict[str, tuple[Gather, Reduce]] = {
    "weighted": (Copy(torch.linspace(1, 2, 7), torch.linspace(0.5, 1, 6), torch.linspace(2, 3, 4)), "sum"),
    "a mean of what was heard of": (Messages(lambda source, _edges, _target: 2 * source), "mean"),
    "by relation": (by_relation(), "sum"),
}


@pytest.mark.parametrize("name", GATHERS)
def test_rows_are_those_of_the_whole(name: str) -> None:
    gather, reduce = GATHERS[name]
    x: Tensor = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
    tables = {"counted": torch.tensor([1.0, 2.0, 3.0, 8.0]), "edge_type": torch.tensor([0, 1, 0, 1, 1, 0, 1])}
    graph = local_graph(OFFSETS, NEIGHBOURS, 6, degree=torch.arange(6) + 1, **tables)
    piece = excerpt(graph, ROWS, SOURCES)
    whole = View(graph).aggregate(gather, reduce, x)
    found = View(piece.graph).aggregate(piece.of(gather), reduce, x[SOURCES])
    torch.testing.assert_close(found, whole[ROWS])
