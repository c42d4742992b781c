"""What `--balance` evens out: the node weights behind the names, from the tables of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError, nearest
from starling.kernels.degrees import count_degrees
from starling.partition.balance import Load
from starling.store.graph import Graph

BALANCES = ("train", "val", "test", "edges", "types")


def loads_of(graph: Graph, names: Sequence[str]) -> list[Load]:
    """The node weights behind the names given to --balance."""
    loads = []
    for name in names:
        if name not in BALANCES:
            raise InputError(f"Unknown load '{name}' in --balance. {nearest(name, BALANCES)}")
        if name == "edges":
            loads.append(Load("edges", _in_degrees(graph)))
        elif name == "types":
            loads.extend(_type_loads(graph))
        else:
            mask = mask_of(graph, name)
            if mask is None:
                raise InputError(
                    f"--balance {name} needs a '{name}' mask, which {graph.path} lacks. Import the graph with --split."
                )
            loads.append(Load(name, mask))
    return loads


def tables_behind(graph: Graph, names: Sequence[str]) -> dict[str, str]:
    """The SHA-256 of each node table that the loads are made of."""
    tables = {"type" if name == "types" else name for name in names if name != "edges"}
    files = {name: graph.manifest.node_tables[name].files[0] for name in sorted(tables)}
    return {name: graph.manifest.files[file].sha256 for name, file in files.items()}


def mask_of(graph: Graph, name: str) -> NDArray[np.bool_] | None:
    """A mask over the nodes, where the graph has it."""
    return np.asarray(graph.node_table(name)) if name in graph.manifest.node_tables else None


def _type_loads(graph: Graph) -> list[Load]:
    if "type" not in graph.manifest.node_tables:
        raise InputError(
            f"--balance types needs node types, which {graph.path} lacks. Import it with a node table that has them."
        )
    types = np.asarray(graph.node_table("type"))
    names = graph.manifest.node_types or tuple(str(code) for code in range(int(types.max(initial=0)) + 1))
    return [Load(f"type {name}", types == code) for code, name in enumerate(names)]


def _in_degrees(graph: Graph) -> NDArray[Any]:
    degrees = np.zeros(graph.manifest.nodes, np.int64)
    for block in graph.edge_stream().blocks():
        count_degrees(block.pairs, graph.manifest.nodes, "destination", into=degrees)
    return degrees
