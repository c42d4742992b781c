"""PyTorch Geometric's ``Data`` and ``HeteroData``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.stream.arrays import ArrayEdges, ArrayTable
from starling.stream.bridges.columns import (
    Note,
    as_array,
    dense_column,
    edge_roles,
    known_names,
    node_columns,
    origin,
    pair_arrays,
    quiet,
)
from starling.stream.bridges.typed import EdgeSet, NodeSet, typed_graph
from starling.stream.named import named
from starling.stream.raw import CsrRows, Ids, RawGraph

_NOT_COLUMNS = {"edge_index", "adj_t", "num_nodes", "user_id"}


def raw_from_pyg(data: Any) -> RawGraph:
    """The graph in a PyG object: its edges, every tensor with a row per node, and the known ones with a row per edge.

    Nodes are numbered as in the object; those of a ``HeteroData`` type after type. ``user_id``, if there is one, holds the
    user's ids. Of several splits (a mask a column) the first is taken. What cannot be carried is named in the origin.
    """
    if hasattr(data, "edge_types") and hasattr(data, "node_types"):
        stores = {kind: _Store.read(data[kind]) for kind in (*data.node_types, *data.edge_types)}
        nodes = [NodeSet(kind, _count(data[kind]), stores[kind].nodes) for kind in data.node_types]
        edges = [EdgeSet(kind, *_ends(data[kind]), stores[kind].edges) for kind in data.edge_types]
        raw = typed_graph(nodes, edges, _origin(stores.values()))
        ids = [data[kind].user_id for kind in data.node_types if "user_id" in data[kind]]
        return named(raw, _joined(ids)) if ids else raw
    if not hasattr(type(data), "num_nodes") or not hasattr(data, "is_edge_attr"):
        raise InputError(f"Expected a PyG Data or HeteroData, got {type(data).__name__}.")
    store = _Store.read(data)
    raw = RawGraph(
        edges=ArrayEdges(_ends(data), store.edges, name="edge_index"),
        tables=(ArrayTable("the PyG object", store.nodes),) if store.nodes else (),
        nodes=_count(data),
        origin=_origin([store]),
    )
    return named(raw, _joined([data.user_id])) if "user_id" in data else raw


@dataclass(frozen=True)
class _Store:
    """The columns of a PyG storage (a plain ``Data`` is one of nodes and of edges), and the names of what is none."""

    nodes: dict[str, NDArray[Any] | CsrRows]
    edges: dict[str, NDArray[Any]]
    left_out: list[str]

    @staticmethod
    def read(store: Any) -> _Store:
        with quiet():  # PyG warns where it must guess the number of nodes
            names = {name: store[name] for name in store.keys() if name not in _NOT_COLUMNS}  # noqa: SIM118
            of_nodes = {name: value for name, value in names.items() if _tensor(value) and store.is_node_attr(name)}
            of_edges = {name: value for name, value in names.items() if _tensor(value) and store.is_edge_attr(name)}
        for name in known_names(names):
            if _tensor(names[name]) and name not in of_edges and name not in of_nodes:
                count, what = (store.num_edges, "edges") if name.startswith("edge_") else _rows_of(store)
                raise InputError(
                    f"Expected a row of {name} for each of {count:,} {what}, got {names[name].shape[0]:,}. Fix it, or remove it."
                )
        roles = edge_roles(of_edges)
        edges = {role: dense_column(role, of_edges[name]) for name, role in roles.items()}
        if "adj_t" in store:
            weight = _adjacency(store).values
            edges |= {} if bool((weight == 1).all()) else {"weight": weight}
        return _Store(node_columns(of_nodes), edges, sorted(set(names) - set(of_nodes) - set(roles)))


def _rows_of(store: Any) -> tuple[int, str]:
    """What a column of a storage has rows for: edges where it is one of edges alone, else nodes."""
    of_edges = "edge_index" in store and getattr(store, "_key", None) is not None
    return (store.num_edges, "edges") if of_edges else (_count(store), "nodes")


def _tensor(value: Any) -> bool:
    return hasattr(value, "shape") or hasattr(value, "to_torch_sparse_csr_tensor")


def _count(store: Any) -> int:
    with quiet():  # where nothing else tells, the largest number in edge_index does
        count = store.num_nodes
    if count is None:
        raise InputError("The PyG object does not say how many nodes it has. Set num_nodes, or give it features.")
    return int(count)


def _ends(store: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sources and destinations, from ``edge_index`` or from the transposed sparse matrix ``adj_t``."""
    if "edge_index" in store:
        return pair_arrays(store.edge_index)
    if "adj_t" in store:
        rows = _adjacency(store)
        return rows.columns, np.repeat(np.arange(len(rows)), np.diff(rows.offsets))
    return np.zeros(0, np.int64), np.zeros(0, np.int64)


def _adjacency(store: Any) -> CsrRows:
    rows = as_array(store.adj_t)
    if not isinstance(rows, CsrRows):
        raise InputError(f"Expected adj_t to be a sparse matrix, got an array of shape {rows.shape}.")
    return rows


def _joined(ids: list[Any]) -> Ids:
    """Ids given as tensors of whole numbers or as lists of strings."""
    if any(isinstance(part, list) for part in ids):
        return pa.array([str(name) for part in ids for name in part], pa.string())
    return np.concatenate([dense_column("user_id", part) for part in ids]).astype(np.int64)


def _origin(stores: Iterable[_Store]) -> dict[str, Note]:
    return origin("torch_geometric", (name for store in stores for name in store.left_out))
