"""Open Graph Benchmark datasets in their library-agnostic form: a dictionary of arrays, labels, and a split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.stream.arrays import ArrayEdges, ArrayTable
from starling.stream.bridges.columns import column, dense_column, node_columns, origin, pair_arrays
from starling.stream.bridges.typed import EdgeSet, NodeSet, typed_graph
from starling.stream.raw import RawGraph

_SPLITS = (("train", "train"), ("val", "valid"), ("test", "test"))


def raw_from_ogb(dataset: Any) -> RawGraph:
    """The graph of ``NodePropPredDataset`` or ``LinkPropPredDataset``, labels and official split included.

    Of a link dataset the graph holds the training edges (split 0); validation (1) and test (2) edges are added to it, in both
    directions where every training edge is there in both. Sampled negative edges are not edges and are left out.
    """
    item = dataset[0]
    name = str(getattr(dataset, "name", "unnamed"))
    if hasattr(dataset, "get_edge_split"):
        return _links(item, dataset.get_edge_split(), name)
    if not isinstance(item, tuple) or not hasattr(dataset, "get_idx_split"):
        raise InputError(f"Expected an OGB node or link dataset (library-agnostic), got {type(dataset).__name__}.")
    graph, labels = item
    classes = "classification" in str(getattr(dataset, "task_type", "classification"))
    split = dataset.get_idx_split()
    if "edge_index_dict" in graph:
        return _typed(graph, labels, split, classes, name)
    nodes = int(graph["num_nodes"])
    columns = _node_columns(graph, nodes) | {"y": _labels(labels, classes)}
    columns |= {mask: _mask(split[part], nodes) for mask, part in _SPLITS if part in split}
    edges = ArrayEdges(pair_arrays(graph["edge_index"]), _edge_columns(graph), name="edge_index")
    return RawGraph(edges, (ArrayTable("the OGB dataset", columns),), nodes, origin=origin("ogb", dataset=name))


def _typed(graph: Mapping[str, Any], labels: Any, split: Any, classes: bool, name: str) -> RawGraph:
    """A graph of several types, such as ogbn-mag: every entry is a dictionary by type."""
    entries = {name: value for name, value in graph.items() if isinstance(value, dict) and name.startswith("node_")}
    nodes = []
    for kind, count in graph["num_nodes_dict"].items():
        found = {name.removesuffix("_dict"): by_kind[kind] for name, by_kind in entries.items() if kind in by_kind}
        columns = node_columns(found)
        if kind in labels:
            columns["y"] = _labels(labels[kind], classes)
        columns |= {mask: _mask(split[part][kind], int(count)) for mask, part in _SPLITS if kind in split.get(part, {})}
        nodes.append(NodeSet(kind, int(count), columns))
    edges = []
    for kind, pairs in graph["edge_index_dict"].items():
        features = (graph.get("edge_feat_dict") or {}).get(kind)
        edges.append(EdgeSet(kind, *pair_arrays(pairs), {} if features is None else {"attr": dense_column("attr", features)}))
    return typed_graph(nodes, edges, origin("ogb", dataset=name))


def _links(graph: Mapping[str, Any], split: Mapping[str, Any], name: str) -> RawGraph:
    source, destination = pair_arrays(graph["edge_index"])
    columns = _edge_columns(graph)
    parts = [(source, destination, columns, 0)]
    mirrored = _symmetric(source, destination)
    for code, part in ((1, "valid"), (2, "test")):
        held_out, held_columns = _held_out(split[part])
        parts.append((*held_out, held_columns, code))
        if mirrored:
            parts.append((*held_out[::-1], held_columns, code))
    kept = [role for role in columns if all(role in part[2] for part in parts)]
    joined: dict[str, Any] = {role: np.concatenate([part[2][role] for part in parts]) for role in kept}
    joined["split"] = np.concatenate([np.full(len(part[0]), part[3], np.uint8) for part in parts])
    ends = tuple(np.concatenate([part[side] for part in parts]) for side in (0, 1))
    nodes = int(graph["num_nodes"])
    tables = (ArrayTable("the OGB dataset", features),) if (features := _node_columns(graph, nodes)) else ()
    return RawGraph(
        ArrayEdges((ends[0], ends[1]), joined, name="the OGB dataset"),
        tables,
        nodes,
        origin=origin("ogb", set(columns) - set(kept), dataset=name),
    )


def _held_out(part: Mapping[str, Any]) -> tuple[tuple[NDArray[Any], NDArray[Any]], dict[str, NDArray[Any]]]:
    """The positive edges of one part of a link split, in any of OGB's three ways of writing them."""
    if "edge" in part:
        ends = pair_arrays(np.asarray(part["edge"]).T)
    elif "source_node" in part:
        ends = np.asarray(part["source_node"]), np.asarray(part["target_node"])
    elif "head" in part:
        ends = np.asarray(part["head"]), np.asarray(part["tail"])
    else:
        raise InputError(f"Expected edges in the OGB split, got only: {', '.join(part)}.")
    roles = {"weight": "weight", "relation": "type"}
    return ends, {role: dense_column(role, part[name]) for name, role in roles.items() if name in part}


def _node_columns(graph: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """Features, and whatever else has a row per node (node_year, node_species, …)."""
    skip = ("edge", "num_nodes")
    found = {name: value for name, value in graph.items() if value is not None and not name.startswith(skip)}
    return dict(node_columns({name: value for name, value in found.items() if np.shape(value)[:1] == (nodes,)}))


def _edge_columns(graph: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    names = {"edge_feat": "attr", "edge_weight": "weight", "edge_reltype": "type"}
    return {role: dense_column(role, graph[name]) for name, role in names.items() if graph.get(name) is not None}


def _labels(labels: Any, classes: bool) -> NDArray[Any]:
    """Labels as OGB gives them, [N, 1] or [N, tasks]; of classes, NaN (no label) becomes −1."""
    array = np.asarray(labels)
    if classes and array.dtype.kind == "f" and (array.ndim == 1 or array.shape[1] == 1):
        array = np.where(np.isnan(array), -1, array).astype(np.int64)
    return np.asarray(column("y", array))


def _mask(index: Any, nodes: int) -> NDArray[np.bool_]:
    mask = np.zeros(nodes, bool)
    mask[np.asarray(index)] = True
    return mask


def _symmetric(source: NDArray[Any], destination: NDArray[Any]) -> bool:
    """Whether the reverse of every edge is an edge."""
    n = int(max(source.max(initial=0), destination.max(initial=0))) + 1
    forward = np.unique(source.astype(np.int64) * n + destination)
    return bool(np.array_equal(forward, np.unique(destination.astype(np.int64) * n + source)))
