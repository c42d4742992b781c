"""The graphs of bench/typed.py: how each file becomes a graph directory with types, features of each type, and inverse relations.

A file is an .npz with `edge_index` [2, E], `num_nodes`, labels `y` (−1 for none), masks, and `edge_type` with `node_type`, or
`edge_attr`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from starling.store.graph import create_graph
from starling.stream.arrays import ArrayEdges, ArrayTable
from starling.stream.bridges.typed import EdgeSet, NodeSet, typed_graph
from starling.stream.ingest import ImportOptions
from starling.stream.raw import RawGraph
from starling.stream.readers.open import open_inputs

Columns = dict[str, Any]


def prepare(name: str, data: Path, place: Path, *, validate: bool) -> Path:
    """Write the graph of a file; with `validate` a fifth of the training nodes validates, where the file has no such nodes."""
    with np.load(data / f"{name}.npz") as file:
        arrays: Columns = {key: file[key] for key in file.files}
    masks = _masks(arrays, validate)
    if name.startswith("hgb_"):
        raw = _by_type(arrays, masks)
        return create_graph(raw, place).path
    if name == "bitcoin_otc":
        return create_graph(_with_degrees(arrays, masks), place).path
    columns = {"y": arrays["y"], **masks}
    if name == "rdf_mutag":
        columns["x"] = _relation_counts(arrays)
    return create_graph(_entities(name, data, columns), place, ImportOptions(inverse=True)).path


def _masks(arrays: Columns, validate: bool) -> Columns:
    train, test = arrays["train_mask"], arrays["test_mask"]
    if "val_mask" in arrays:
        return {"train": train, "val": arrays["val_mask"], "test": test}
    if not validate:
        return {"train": train, "test": test}
    rows = np.random.default_rng(0).permutation(np.flatnonzero(train))
    val = np.zeros_like(train)
    val[rows[: len(rows) // 5]] = True
    return {"train": train & ~val, "val": val, "test": test}


def _entities(name: str, data: Path, columns: Columns) -> RawGraph:
    """A graph of entities; relations get inverses on import."""
    raw = open_inputs([str(data / f"{name}.npz")], memory=1 << 30)
    return RawGraph(
        edges=raw.edges,
        tables=(ArrayTable("entities", columns),),
        nodes=raw.nodes,
        edge_types=raw.edge_types,
        directed=True,
        origin=raw.origin,
    )


def _relation_counts(arrays: Columns) -> NDArray[np.float32]:
    """For each entity the logarithms of how many edges of each relation it has going out and coming in."""
    count, relations = int(arrays["num_nodes"]), int(arrays["edge_type"].max()) + 1
    found = np.zeros((count, 2 * relations))
    for side, ends in enumerate(arrays["edge_index"]):
        np.add.at(found, (ends, side * relations + arrays["edge_type"]), 1)
    return np.log1p(found).astype(np.float32)


def _by_type(arrays: Columns, masks: Columns) -> RawGraph:
    """Node types one after the other, each with the columns it has; relations are stored in both directions already."""
    meta = json.loads(str(arrays["meta"]))
    names = [meta["node_types"][str(code)] for code in range(len(meta["node_types"]))]
    kinds, widths = arrays["node_type"], meta["x_dim_per_type"]
    x = sp.csr_matrix((arrays["x_data"], arrays["x_indices"], arrays["x_indptr"]), shape=tuple(arrays["x_shape"]))
    labelled = int(kinds[np.flatnonzero(arrays["y"] >= 0)[0]])
    rank, nodes = np.empty(len(kinds), np.int64), []
    for code, kind in enumerate(names):
        mine = np.flatnonzero(kinds == code)
        rank[mine] = np.arange(len(mine))
        columns: Columns = {}
        if kind in widths:
            columns["x"] = np.asarray(x[mine, : widths[kind]].todense(), np.float32)
        if code == labelled:
            columns |= {"y": arrays["y"][mine], **{mask: values[mine] for mask, values in masks.items()}}
        nodes.append(NodeSet(kind, len(mine), columns))
    return typed_graph(nodes, _relations(arrays, names, rank), {"name": str(meta["name"])})


def _relations(arrays: Columns, names: list[str], rank: NDArray[np.int64]) -> list[EdgeSet]:
    sets, kinds = [], arrays["node_type"]
    for code in range(int(arrays["edge_type"].max()) + 1):
        source, destination = arrays["edge_index"][:, arrays["edge_type"] == code]
        ends = names[kinds[source[0]]], names[kinds[destination[0]]]
        sets.append(EdgeSet((ends[0], f"to{code}", ends[1]), rank[source], rank[destination], {}))
    return sets


def _with_degrees(arrays: Columns, masks: Columns) -> RawGraph:
    """Ratings of traders; nobody has features, so how often each has rated and was rated stands for them."""
    count, (source, destination) = int(arrays["num_nodes"]), arrays["edge_index"]
    degrees = [np.log1p(np.bincount(ends, minlength=count)) for ends in (source, destination)]
    columns = {"x": np.stack(degrees, 1).astype(np.float32), "y": arrays["y"], **masks}
    return RawGraph(
        edges=ArrayEdges((source, destination), {"attr": arrays["edge_attr"]}, name="ratings"),
        tables=(ArrayTable("traders", columns),),
        nodes=count,
        directed=True,
        origin={"name": "Bitcoin OTC"},
    )
