"""Small awkward graphs for layer tests: isolated nodes, a hub, duplicate edges, self-loops; square and bipartite."""

from __future__ import annotations

import torch
from torch import Tensor

from starling.nn.graph import LocalGraph, graph_of_edges
from starling.nn.view import View


def edges(nodes: int, destinations: int, count: int, seed: int, *, loops: bool = True) -> Tensor:
    """Random pairs; destination 0 hears from everybody, the last destination from nobody, the first edge is there twice.

    Some nodes have a self-loop, none has two.
    """
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(nodes, (count,), generator=generator)
    target = torch.randint(max(destinations - 1, 1), (count,), generator=generator)
    hub = torch.stack([torch.arange(nodes), torch.zeros(nodes, dtype=torch.int64)], 1)
    pairs = torch.cat([torch.stack([source, target], 1), hub])
    pairs = torch.cat([pairs, pairs[:1]])
    loop = pairs[:, 0] == pairs[:, 1]
    nodes_with_one = pairs[loop, 0].unique()
    pairs = pairs[~loop]
    return torch.cat([pairs, nodes_with_one[:, None].expand(-1, 2)]) if loops else pairs


def make(bipartite: bool = False, *, loops: bool = True, nodes: int = 11, count: int = 30, seed: int = 0) -> LocalGraph:
    """A graph with edge weights, attributes of 3 columns, 4 relations, and for a block made-up whole-graph degrees."""
    destinations = nodes - 4 if bipartite else nodes
    pairs = edges(nodes, destinations, count, seed, loops=loops)
    generator = torch.Generator().manual_seed(seed + 1)
    tables: dict[str, Tensor] = {
        "edge_weight": torch.rand(len(pairs), generator=generator) + 0.5,
        "edge_attr": torch.rand(len(pairs), 3, generator=generator),
        "edge_type": torch.randint(4, (len(pairs),), generator=generator),
    }
    if bipartite:
        outer = torch.randint(1, 6, (nodes - destinations,), generator=generator)
        tables["degree"] = torch.cat([torch.bincount(pairs[:, 1], minlength=destinations), outer])
        tables["weighted_degree"] = tables["degree"].float() + 0.25
    return graph_of_edges(pairs, nodes, destinations, **tables)


def view(graph: LocalGraph) -> View:
    return View(graph)


def edge_index(graph: LocalGraph) -> Tensor:
    """PyG's form of the edges."""
    return torch.stack([graph.neighbours.long(), graph.edge_destination])


def rows(graph: LocalGraph, width: int, dtype: torch.dtype = torch.float32, seed: int = 5) -> Tensor:
    return torch.randn(graph.sources, width, dtype=dtype, generator=torch.Generator().manual_seed(seed))
