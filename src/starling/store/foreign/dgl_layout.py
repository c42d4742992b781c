"""DGL's partition folders, as far as they go without DGL.

Three layouts are read:
- ``dgl.distributed.partition_graph``: ``<name>.json`` whose ``node_map`` gives each part a range of DGL's new node ids. The
  way back to the original ids is in ``part0/orig_nids.dgl`` and so on (DGL's dispatch pipeline and GraphStorm write them),
  or in the first result of ``partition_graph(..., return_mapping=True)``, saved in the folder: as ``orig_nids.npy``, or, where
  nodes have types and it is a dictionary, as ``orig_nids.npz`` with an array for each type.
- the older one without reshuffling, whose ``node_map`` names a ``.npy`` file with the part of each node;
- the assignment DGL's dispatch pipeline takes: ``partition_meta.json`` and ``<node type>.txt``, a part number a line.

Written is the first, with ``orig_nids.dgl`` but without ``graph.dgl`` and features, which only DGL can write, and the third,
from which DGL's dispatch pipeline makes them. Where nodes have types, the third alone.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from starling.core.assignment import Assignment
from starling.core.errors import InputError
from starling.core.npy import NpyReader
from starling.store.foreign.dgl_tensors import read_dgl_tensors, write_dgl_tensors
from starling.store.foreign.metis_file import MOST_PARTS, owners, read_metis_part
from starling.store.parts import Parts, Shard

PARTITION_META = "partition_meta.json"
ORIGINAL_NODES, ORIGINAL_NODES_BY_TYPE, ORIGINAL_NODES_DGL = "orig_nids.npy", "orig_nids.npz", "orig_nids.dgl"
_ONE_NODE_TYPE, _ONE_EDGE_TYPE = "_N", "_N:_E:_N"


@dataclass(frozen=True)
class NodeTypes:
    """The type of each node [V] as a code, and the codes' names."""

    code: NDArray[Any]
    names: tuple[str, ...]


def read_dgl_partition(folder: Path, nodes: int, types: NodeTypes | None = None) -> Assignment:
    """The assignment in a DGL partition folder of a graph of `nodes` nodes.

    Nodes get DGL's order inside parts, so that without node types global ids are DGL's own new ids. `types` is needed where
    the folder tells types apart, since DGL numbers the nodes of each type from 0.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"Expected a folder written by DGL, got {folder}, which is none.")
    found = _metadata(folder)
    if found is None:
        if not (folder / PARTITION_META).is_file():
            raise InputError(
                f"{folder} has neither DGL's metadata (a .json file with a node_map) nor a {PARTITION_META}. "
                "Give the folder that dgl.distributed.partition_graph or DGL's partition pipeline wrote."
            )
        return _read_text(folder, nodes, types)
    path, metadata = found
    parts, node_map = _part_count(metadata, path), metadata["node_map"]
    if isinstance(node_map, str):
        owner = _load(folder / Path(node_map).name)
        if owner.shape != (nodes,) or (nodes and not 0 <= int(owner.min()) <= int(owner.max()) < parts):
            raise InputError(
                f"Expected a part from 0 to {parts - 1} for each of {nodes:,} nodes in {folder / Path(node_map).name}."
            )
        return Assignment("edge-cut", parts, owner.astype(np.int32))
    ranges = _ranges({_ONE_NODE_TYPE: node_map} if isinstance(node_map, list) else node_map, parts, path)
    return _from_ranges(folder, ranges, parts, nodes, types)


def write_dgl_partition(parts: Parts, folder: Path, name: str = "graph") -> None:
    """Write an edge-cut's parts as a DGL partition folder (see the top of this file for what DGL can do with it)."""
    manifest, folder = parts.manifest, Path(folder)
    if manifest.kind != "edge-cut":
        raise InputError("DGL's partitions are edge-cuts; these parts are a vertex-cut. Partition with an edge-cut method.")
    if folder.exists():
        raise InputError(f"{folder} exists already. Choose another name.")
    folder.mkdir()
    # DGL's pipeline up to 2.3 refuses any other name of a method.
    method = "random" if manifest.method == "random" else "metis"
    _write_json(folder / PARTITION_META, {"algo_name": method, "num_parts": len(parts), "version": "1.0.0"})
    _write_text(parts, folder)
    if manifest.node_types:
        return  # part by part DGL numbers nodes and edges type by type; Starling does so with nodes of a sub-part alone
    for part in range(len(parts)):
        (folder / f"part{part}").mkdir()
        original = parts.position_of_global[parts.offsets[part] : parts.offsets[part + 1]]
        write_dgl_tensors(folder / f"part{part}" / ORIGINAL_NODES_DGL, {_ONE_NODE_TYPE: np.asarray(original, np.int64)})
    edges = np.cumsum([0, *(_edges_of(parts.shard(part)) for part in range(len(parts)))])
    _write_json(
        folder / f"{name}.json",
        {
            "graph_name": name,
            "num_nodes": manifest.nodes,
            "num_edges": manifest.edges,
            "part_method": manifest.method,
            "num_parts": len(parts),
            "halo_hops": manifest.halo_hops,
            "node_map": {_ONE_NODE_TYPE: _pairs(parts.offsets)},
            "edge_map": {_ONE_EDGE_TYPE: _pairs(edges)},
            "ntypes": {_ONE_NODE_TYPE: 0},
            "etypes": {_ONE_EDGE_TYPE: 0},
        },
    )


def _edges_of(shard: Shard) -> int:
    """In-edges of the owned nodes, those dropped by zero halo hops included."""
    return int(shard.incoming.offsets[shard.owned]) + shard.record.dropped


def _pairs(bounds: NDArray[Any]) -> list[list[int]]:
    return [[int(low), int(high)] for low, high in itertools.pairwise(bounds)]


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=4) + "\n")


def _write_text(parts: Parts, folder: Path) -> None:
    """One file of part numbers for each node type, its nodes in imported order."""
    names = parts.manifest.node_types or (_ONE_NODE_TYPE,)
    codes = np.zeros(parts.manifest.nodes, np.uint16)
    if parts.manifest.node_types:
        for shard in (parts.shard(part) for part in range(len(parts))):
            codes[shard.position[: shard.owned]] = np.asarray(shard.node_table("type"))
    owner = np.concatenate([np.zeros(0, np.int64), *owners(parts)])
    for code, name in enumerate(names):
        (folder / f"{name}.txt").write_text("".join(f"{part}\n" for part in owner[codes == code].tolist()))


def _metadata(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The partition's metadata, if there is exactly one file of it."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            document = json.loads(path.read_text())
        except ValueError as error:
            raise InputError(f"{path} is not valid JSON ({error}). Partition with DGL again.") from error
        if isinstance(document, dict) and "node_map" in document:
            found.append((path, document))
    if len(found) > 1:
        raise InputError(
            f"{folder} holds the metadata of several graphs: {', '.join(path.name for path, _ in found)}. Keep one."
        )
    return found[0] if found else None


def _part_count(metadata: dict[str, Any], path: Path) -> int:
    parts = metadata.get("num_parts")
    if not isinstance(parts, int) or not 1 <= parts <= MOST_PARTS:
        raise InputError(f"Expected num_parts in {path} to be a whole number from 1 to {MOST_PARTS}, got {parts!r}.")
    return parts


def _read_text(folder: Path, nodes: int, types: NodeTypes | None) -> Assignment:
    path = folder / PARTITION_META
    document = json.loads(path.read_text())
    parts = _part_count(document if isinstance(document, dict) else {}, path)
    owner = np.empty(nodes, np.int32)
    names = sorted(file.stem for file in folder.glob("*.txt"))
    for name, positions in _positions_by_type(names, nodes, types, folder).items():
        owner[positions] = read_metis_part(folder / f"{name}.txt", len(positions), parts).owner
    return Assignment("edge-cut", parts, owner)


def _positions_by_type(names: list[str], nodes: int, types: NodeTypes | None, folder: Path) -> dict[str, NDArray[Any]]:
    """The positions of each node type's nodes; one type in the folder is the whole graph."""
    if types is None:
        if len(names) != 1:
            raise InputError(f"{folder} has the node types {', '.join(names) or 'none'}, but this graph's nodes have no types.")
        return {names[0]: np.arange(nodes)}
    if sorted(names) != sorted(types.names):
        raise InputError(f"{folder} has the node types {', '.join(names)}, but this graph has {', '.join(types.names)}.")
    return {name: np.flatnonzero(types.code == types.names.index(name)) for name in names}


def _ranges(node_map: Any, parts: int, path: Path) -> dict[str, NDArray[np.int64]]:
    """For each node type the range of new ids of each part [p, 2]; older files give only where each range ends."""
    ranges = {}
    try:
        for name, listed in node_map.items():
            bounds = np.array(listed, np.int64)
            if bounds.ndim == 1:
                bounds = np.stack([np.concatenate([[0], bounds[:-1]]), bounds], 1)
            if bounds.shape != (parts, 2) or (bounds[:, 0] > bounds[:, 1]).any():
                raise ValueError
            ranges[str(name)] = bounds
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"Expected node_map in {path} to list a range of ids for each of {parts} parts.") from None
    return ranges


def _from_ranges(
    folder: Path, ranges: dict[str, NDArray[np.int64]], parts: int, nodes: int, types: NodeTypes | None
) -> Assignment:
    owner, locality = np.full(nodes, -1, np.int32), np.zeros(nodes, np.int32)
    positions = _positions_by_type(sorted(ranges), nodes, types, folder)
    for name, bounds in ranges.items():
        here = positions[name]
        sizes = bounds[:, 1] - bounds[:, 0]
        if int(sizes.sum()) != len(here):
            kind = "" if types is None else f" of type '{name}'"
            raise InputError(f"{folder} is of a graph with {int(sizes.sum()):,} nodes{kind}; this graph has {len(here):,}.")
        original = _original_ids(folder, name, parts, len(here))
        owner[here[original]] = np.repeat(np.arange(parts, dtype=np.int32), sizes)
        firsts = np.repeat(bounds[:, 0] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
        locality[here[original]] = firsts + np.arange(len(here))
    if (owner < 0).any():
        raise InputError(f"The original node ids in {folder} do not name every node once. Partition with DGL again.")
    return Assignment("edge-cut", parts, owner, locality=locality)


def _original_ids(folder: Path, name: str, parts: int, count: int) -> NDArray[np.int64]:
    """The original ids of one type's nodes, in DGL's new order."""
    files = [folder / f"part{part}" / ORIGINAL_NODES_DGL for part in range(parts)]
    if all(file.is_file() for file in files):
        original = np.concatenate([_of_type(name, read_dgl_tensors(file), file) for file in files])
    elif (folder / ORIGINAL_NODES_BY_TYPE).is_file():
        original = _of_type(name, _load_by_type(folder / ORIGINAL_NODES_BY_TYPE), folder / ORIGINAL_NODES_BY_TYPE)
    elif (folder / ORIGINAL_NODES).is_file():
        original = _load(folder / ORIGINAL_NODES).reshape(-1)
    else:
        raise InputError(
            f"{folder} does not say which original node each of its nodes is: DGL keeps that only on request. Partition with "
            f"nodes, edges = partition_graph(..., return_mapping=True) and save the first in this folder: "
            f"numpy.save('{ORIGINAL_NODES}', nodes), or, with node types, numpy.savez('{ORIGINAL_NODES_BY_TYPE}', **nodes)."
        )
    if len(original) != count or (count and not 0 <= int(original.min()) <= int(original.max()) < count):
        raise InputError(f"Expected {count:,} original node ids below {count:,} for '{name}' in {folder}.")
    return original.astype(np.int64)


def _of_type(name: str, found: dict[str, NDArray[Any]], path: Path) -> NDArray[Any]:
    if name not in found:
        raise InputError(f"{path} has no original ids of the node type '{name}'.")
    return found[name].reshape(-1)


def _load_by_type(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (ValueError, OSError, BadZipFile) as error:
        raise InputError(f"{path} cannot be read ({error}). Save it again with numpy.savez.") from error


def _load(path: Path) -> NDArray[Any]:
    if not path.is_file():
        raise InputError(f"{path} is missing. Copy the whole folder that DGL wrote.")
    reader = NpyReader(path)
    return reader.read(0, reader.rows)
