"""A graph directory as another library's object, wholly in memory: ``starling.to_pyg(graph)`` and its like.

Nodes are numbered by position, edges stand in imported order. Where the user's ids are not positions they come along as
``user_id``, by which `from_pyg` and `from_dgl` know them again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from starling.core.errors import InputError, MissingExtra
from starling.store.by_type import NodesOfType, edges_by_type, is_typed, nodes_by_type
from starling.store.graph import CsrTable, Graph
from starling.stream.bridges.columns import quiet

_MASKS = ("train", "val", "test")
PYG_NODES = {"type": "node_type", **{name: f"{name}_mask" for name in _MASKS}}
PYG_EDGES = {name: f"edge_{name}" for name in ("weight", "attr", "type", "time", "split")}
_DGL_NODES = {"x": "feat", "y": "label", "type": "_TYPE", **{name: f"{name}_mask" for name in _MASKS}}
_DGL_EDGES = {"attr": "feat", "type": "_TYPE"}


def to_pyg(graph: Graph) -> Any:
    """A PyG ``Data``, or a ``HeteroData`` where node types have names. Sparse features become a sparse CSR tensor.

    Labels of several classes a node are floats, as PyG's losses want them.
    """
    try:
        with quiet():  # its import meets deprecations of its own
            from torch_geometric.data import Data, HeteroData
    except ImportError as error:
        raise MissingExtra("torch-geometric", "pyg", "Making a PyG object") from error
    if not is_typed(graph):
        data = Data(edge_index=to_tensor(np.asarray(graph.edges).T), num_nodes=graph.nodes)
        _fill(data, _node_tables(graph), PYG_NODES)
        _fill(data, _edge_tables(graph), PYG_EDGES)
        if graph.manifest.ids != "position":
            data.user_id = _pyg_ids(graph, slice(None))
        return data
    data = HeteroData()
    for nodes in nodes_by_type(graph):
        data[nodes.type].num_nodes = len(nodes.positions)
        _fill(data[nodes.type], nodes.tables, PYG_NODES)
        if graph.manifest.ids != "position":
            data[nodes.type].user_id = _pyg_ids(graph, nodes.positions)
    for edges in edges_by_type(graph):
        data[edges.type].edge_index = to_tensor(np.stack([edges.source, edges.destination]))
        _fill(data[edges.type], edges.tables, PYG_EDGES)
    return data


def to_dgl(graph: Graph) -> Any:
    """A DGL graph, or a heterograph where node types have names.

    Features are ``feat``, labels ``label``, masks ``train_mask`` and so on; sparse features are made dense, since DGL holds no
    others. Ids that are strings cannot be held either: node i is the i-th of ``graph.ids``.
    """
    try:
        import dgl
    except ImportError as error:
        raise InputError(
            "Making a DGL graph needs the package 'dgl', which is not installed. See dgl.ai for how to."
        ) from error
    if not is_typed(graph):
        pairs = np.asarray(graph.edges).astype(np.int64)
        made = dgl.graph((to_tensor(pairs[:, 0]), to_tensor(pairs[:, 1])), num_nodes=graph.nodes)
        whole = NodesOfType(made.ntypes[0], np.arange(graph.nodes), _node_tables(graph))
        _fill_dgl(made, graph, [whole])
        for name, table in _edge_tables(graph).items():
            made.edges[made.canonical_etypes[0]].data[_DGL_EDGES.get(name, name)] = to_tensor(table)
        return made
    parts, relations = nodes_by_type(graph), edges_by_type(graph)
    made = dgl.heterograph(
        {edges.type: (to_tensor(edges.source), to_tensor(edges.destination)) for edges in relations},
        num_nodes_dict={nodes.type: len(nodes.positions) for nodes in parts},
    )
    _fill_dgl(made, graph, parts)
    for edges in relations:
        for name, table in edges.tables.items():
            made.edges[edges.type].data[_DGL_EDGES.get(name, name)] = to_tensor(table)
    return made


def to_networkx(graph: Graph) -> Any:
    """A NetworkX graph under the user's ids: ``Graph`` or ``DiGraph``, or their ``Multi`` forms where edges repeat.

    Every table becomes an attribute of that name on each node or edge; type codes become names where they have some.
    """
    try:
        import networkx
    except ImportError as error:
        raise MissingExtra("networkx", "networkx", "Making a NetworkX graph") from error
    pairs = np.asarray(graph.edges).astype(np.int64)
    directed = graph.manifest.directed or "type" in graph.manifest.edge_tables  # the reverse of an edge may be of another type
    chosen = np.arange(len(pairs)) if directed else np.flatnonzero(pairs[:, 0] <= pairs[:, 1])
    pairs = pairs[chosen]
    repeats = len(np.unique(pairs[:, 0] * graph.nodes + pairs[:, 1])) < len(pairs)
    kinds = {(True, False): "DiGraph", (True, True): "MultiDiGraph", (False, False): "Graph", (False, True): "MultiGraph"}
    made = getattr(networkx, kinds[directed, repeats])()
    names = _user_ids(graph, slice(None))
    node_rows = _rows(_node_tables(graph), graph.manifest.node_types, len(names))
    made.add_nodes_from(zip(names, node_rows, strict=True))
    edge_tables = {name: table[chosen] for name, table in _edge_tables(graph).items()}
    edge_rows = _rows(edge_tables, graph.manifest.edge_types, len(pairs))
    made.add_edges_from((names[u], names[v], row) for (u, v), row in zip(pairs.tolist(), edge_rows, strict=True))
    return made


def to_scipy(graph: Graph) -> Any:
    """The adjacency matrix as a SciPy CSR array: A[u, v] is the weight of u → v, or 1; repeated edges are added up."""
    try:
        import scipy.sparse
    except ImportError as error:
        raise MissingExtra("scipy", "scipy", "Making a SciPy matrix") from error
    edges = np.asarray(graph.edges)
    weights = _edge_tables(graph).get("weight", np.ones(len(edges), np.float32))
    return scipy.sparse.csr_array((weights, (edges[:, 0], edges[:, 1])), shape=(graph.nodes, graph.nodes))


def _node_tables(graph: Graph) -> dict[str, NDArray[Any] | CsrTable]:
    """All tables with a row for every node."""
    entries = graph.manifest.node_tables
    return {name: graph.node_table(name) for name, entry in entries.items() if entry.of_type is None}


def _edge_tables(graph: Graph) -> dict[str, NDArray[Any]]:
    return {name: np.asarray(graph.edge_table(name)) for name in graph.manifest.edge_tables}


def _user_ids(graph: Graph, chosen: slice | NDArray[np.int64]) -> list[Any]:
    ids = graph.ids.user_ids(0, graph.nodes)
    if isinstance(ids, pa.Array):
        return np.array(ids.to_pylist(), object)[chosen].tolist()  # type: ignore[no-any-return]
    return ids[chosen].tolist()  # type: ignore[no-any-return]


def _pyg_ids(graph: Graph, chosen: slice | NDArray[np.int64]) -> Any:
    ids = _user_ids(graph, chosen)
    return ids if graph.manifest.ids == "string" else to_tensor(np.array(ids, np.int64))


def to_tensor(table: NDArray[Any] | CsrTable) -> Any:
    """A table as PyG's and DGL's objects hold it: a tensor of its own, whole numbers as int64."""
    import torch

    if isinstance(table, CsrTable):
        offsets, columns = (torch.from_numpy(np.array(part, np.int64)) for part in (table.offsets, table.columns))
        with quiet():  # torch warns once that sparse rows are new
            return torch.sparse_csr_tensor(offsets, columns, torch.from_numpy(np.array(table.values)), table.shape)
    wide = {"u": np.int64, "i": np.int64}  # torch indexes with int64 and hardly knows unsigned numbers
    return torch.from_numpy(np.array(table, wide.get(table.dtype.kind, table.dtype)))


def _fill(store: Any, tables: dict[str, Any], names: dict[str, str]) -> None:
    for name, table in tables.items():
        several = name == "y" and table.ndim == 2
        store[names.get(name, name)] = to_tensor(table.astype(np.float32) if several else table)


def _fill_dgl(made: Any, graph: Graph, parts: list[NodesOfType]) -> None:
    for part in parts:
        data = made.nodes[part.type].data
        for name, table in part.tables.items():
            data[_DGL_NODES.get(name, name)] = to_tensor(table.dense(slice(None)) if isinstance(table, CsrTable) else table)
        if graph.manifest.ids == "integer":
            data["user_id"] = to_tensor(np.array(_user_ids(graph, part.positions), np.int64))


def _rows(tables: dict[str, Any], type_names: tuple[str, ...], count: int) -> list[dict[str, Any]]:
    """Tables as a dictionary of attributes for each row."""
    columns: dict[str, Any] = {}
    for name, table in tables.items():
        values = table.dense(slice(None)) if isinstance(table, CsrTable) else np.asarray(table)
        if name == "type" and type_names:
            columns[name] = [type_names[code] for code in values.tolist()]
        else:
            columns[name] = values.tolist() if values.ndim == 1 else list(values)
    return [{name: values[row] for name, values in columns.items()} for row in range(count)]
