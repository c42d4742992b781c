"""The part of DGL's graph interface that bridges use, with DGL's behaviour, for machines where DGL is not installed.

Like DGL 1.1: types are kept sorted, ends come as int64 tensors, node and edge data are mappings a type.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

EdgeType = tuple[str, str, str]


class DglGraph:
    """A graph of one or more types."""

    def __init__(self, edges: dict[EdgeType, tuple[Any, Any]], counts: dict[str, int]) -> None:
        self.canonical_etypes = sorted(edges)
        self.ntypes = sorted(counts)
        self._counts = counts
        self._ends = {kind: tuple(torch.as_tensor(end, dtype=torch.int64) for end in ends) for kind, ends in edges.items()}
        self.nodes = {kind: SimpleNamespace(data={}) for kind in self.ntypes}
        self.edges = {kind: SimpleNamespace(data={}) for kind in self.canonical_etypes}

    @property
    def ndata(self) -> dict[str, Any]:
        (only,) = self.nodes.values()
        return only.data  # type: ignore[no-any-return]

    @property
    def edata(self) -> dict[str, Any]:
        (only,) = self.edges.values()
        return only.data  # type: ignore[no-any-return]

    def num_nodes(self, ntype: str) -> int:
        return self._counts[ntype]

    def all_edges(self, form: str, order: str, etype: EdgeType) -> tuple[Any, ...]:
        assert (form, order) == ("uv", "eid")
        return self._ends[etype]


def graph(ends: tuple[Any, Any], *, num_nodes: int) -> DglGraph:
    """As ``dgl.graph``."""
    return DglGraph({("_N", "_E", "_N"): ends}, {"_N": num_nodes})


def heterograph(edges: dict[EdgeType, tuple[Any, Any]], num_nodes_dict: dict[str, int]) -> DglGraph:
    """As ``dgl.heterograph``."""
    return DglGraph(edges, num_nodes_dict)
