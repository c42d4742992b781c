"""A sampled neighbourhood as PyG's ``Data``: nodes and edges with all their tables, under the names PyG gives them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError, MissingExtra, nearest
from starling.engine.data.columns import Columns
from starling.engine.data.kv import KeyValueStore
from starling.engine.hybrid.messages.calls import Calls
from starling.loader.overview import Overview
from starling.loader.subgraph import Subgraph
from starling.store.parts import Shard
from starling.store.to_objects import PYG_EDGES, PYG_NODES, to_tensor
from starling.stream.bridges.columns import quiet

Fanouts = Sequence[int] | Mapping[Any, Sequence[int]]

_NUMBERS = "numbers of edges"
"""The table of where edges stood in the imported graph."""


class DataMaker(ABC):
    """Makes PyG objects of one kind of graph."""

    def __init__(self, overview: Overview, store: KeyValueStore) -> None:
        self.overview, self.parts, self.store = overview, overview.parts, store
        try:
            with quiet():  # its import meets deprecations of its own
                import torch_geometric.data as pyg
        except ImportError as error:
            raise MissingExtra("torch-geometric", "pyg", "Loading PyG batches") from error
        self._pyg = pyg

    @abstractmethod
    def fanouts(self, given: Fanouts) -> Any:
        """Fan-outs as the strategy `mini` takes them."""

    @abstractmethod
    def hops(self, given: Fanouts) -> int:
        """How many hops they are for."""

    @abstractmethod
    def positions(self, input_nodes: Any) -> NDArray[np.int64]:
        """Positions in the imported graph of the nodes to start from, in the order given."""

    @abstractmethod
    def batch(self, found: Subgraph, input_id: NDArray[np.int64], calls: Calls) -> Any:
        """The object for one neighbourhood; every rank makes its batches in the same order."""

    @property
    def relations(self) -> int:
        """How many edge types there are to sample by; 0 where neighbours are taken whatever their type."""
        return 0

    def named_mask(self, name: str) -> NDArray[np.int64]:
        """Positions of the nodes of a stored mask, ascending."""
        name, known = name.removesuffix("_mask"), self.parts.manifest.node_tables
        if name not in known:
            raise InputError(f"{self.parts.path} has no mask '{name}' to start from. {nearest(name, known)}")

        def ids(shard: Shard) -> NDArray[np.int64]:
            return shard.first_global + np.flatnonzero(np.asarray(shard.node_table(name), np.bool_))

        return np.sort(np.asarray(self.overview.position_of_global[self.overview.told(ids)], np.int64))


class PlainMaker(DataMaker):
    """``Data`` of a graph whose nodes are all of one kind."""

    def __init__(self, overview: Overview, store: KeyValueStore) -> None:
        super().__init__(overview, store)
        numbers = Columns({"edge": (lambda part: overview.parts.shard(part).incoming.edge, np.int64)})
        store.add(_NUMBERS, numbers, kind="edge")

    def fanouts(self, given: Fanouts) -> Any:
        """As they are."""
        if isinstance(given, Mapping):
            raise InputError("Fan-outs by edge type need a graph with node types, got one without. Give one number a hop.")
        return list(given)

    def hops(self, given: Fanouts) -> int:
        """One a number."""
        return len(given)

    def positions(self, input_nodes: Any) -> NDArray[np.int64]:
        """A stored mask by its name, a mask, node numbers, or None for all nodes."""
        if input_nodes is None:
            return np.arange(self.parts.manifest.nodes)
        if isinstance(input_nodes, str):
            return self.named_mask(input_nodes)
        return chosen_nodes(input_nodes, self.parts.manifest.nodes)

    def batch(self, found: Subgraph, input_id: NDArray[np.int64], calls: Calls) -> Any:
        """Every table of nodes and edges, `n_id` being node numbers of the imported graph."""
        data = self._pyg.Data(edge_index=to_tensor(np.stack([found.source, found.destination])), num_nodes=len(found.nodes))
        for name, table in self.parts.manifest.node_tables.items():
            if table.of_type is None:
                data[PYG_NODES.get(name, name)] = node_tensor(name, self.store.pull(name, found.nodes, calls))
        for name in self.parts.manifest.edge_tables:
            data[PYG_EDGES.get(name, name)] = to_tensor(self.store.pull(name, found.entry, calls, kind="edge"))
        data.n_id = to_tensor(np.asarray(self.overview.position_of_global[found.nodes]))
        data.e_id = to_tensor(np.ascontiguousarray(self.store.pull(_NUMBERS, found.entry, calls, kind="edge")["edge"]))
        data.input_id, data.batch_size = to_tensor(input_id), len(input_id)
        data.num_sampled_nodes, data.num_sampled_edges = list(found.nodes_by_hop), list(found.edges_by_hop)
        return data


def node_tensor(name: str, rows: NDArray[Any]) -> Any:
    """A node table as PyG holds it: labels of several classes are floats."""
    return to_tensor(rows.astype(np.float32) if name == "y" and rows.ndim == 2 else rows)


def chosen_nodes(mask_or_nodes: Any, nodes: int) -> NDArray[np.int64]:
    """The numbers that a mask [V], or a list of numbers, stands for."""
    given = np.asarray(mask_or_nodes)
    if given.dtype == np.bool_:
        if given.shape != (nodes,):
            raise InputError(f"Expected a mask of {nodes:,} nodes as input_nodes, got one of shape {given.shape}.")
        return np.flatnonzero(given)
    found: NDArray[np.int64] = given.astype(np.int64).reshape(-1)
    if len(found) and not (found.min() >= 0 and found.max() < nodes):
        raise InputError(f"Expected input_nodes in [0, {nodes:,}), got {found.min():,} … {found.max():,}.")
    if len(np.unique(found)) < len(found):
        raise InputError("Expected every node once in input_nodes, got some twice.")
    return found
