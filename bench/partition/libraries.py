"""METIS, KaMinPar and Mt-KaHyPar on their own: each gets the graph in the form it likes best, and nothing else is in memory.

`write_input` makes that form once; `partition` reads it and calls the library. KaMinPar's and Mt-KaHyPar's packages read
graphs from text files only. Mt-KaHyPar's connectivity objective (km1) works on the hypergraph with one net {v} ∪ N(v) a node.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from starling.core.npy import NpyReader, save_array
from starling.partition.adjacency import read_adjacency
from starling.partition.contract import PartitionTask
from starling.partition.graph_files import graph_file, nets_file
from starling.stream.edges import EdgeStream

IMBALANCE = 0.03
INPUTS = {
    "metis": "lists",
    "metis volume": "lists",
    "kaminpar": "graph.metis",
    "mtkahypar": "graph.metis",
    "mtkahypar km1": "nets.hmetis",
}
"""Library and objective, and the file it reads."""


def write_input(name: str, edges: EdgeStream, folder: Path) -> Path:
    """The graph in the form that a library reads, made the first time."""
    path = folder / INPUTS[name]
    if path.exists():
        return path
    graph = read_adjacency(PartitionTask(edges, 2, memory=1 << 62))
    if path.name == "lists":
        path.mkdir()
        save_array(path / "start.npy", graph.start)
        save_array(path / "neighbour.npy", graph.neighbour)
    else:
        with (graph_file if path.name == "graph.metis" else nets_file)(graph, None, folder) as made:
            shutil.move(made, path)
    return path


def partition(name: str, path: Path, parts: int, threads: int, seed: int) -> Callable[[], NDArray[np.int32]]:
    """The graph loaded, and the call that cuts it."""
    if name.startswith("metis"):
        return _metis(path, "VOL" if name.endswith("volume") else "CUT", parts, seed)
    if name == "kaminpar":
        return _kaminpar(path, parts, threads, seed)
    return _mtkahypar(path, "KM1" if name.endswith("km1") else "CUT", parts, threads, seed)


def _metis(path: Path, objective: str, parts: int, seed: int) -> Callable[[], NDArray[np.int32]]:
    import pymetis

    width = pymetis.zero_copy_dtype()
    start, neighbour = (NpyReader(path / f"{name}.npy") for name in ("start", "neighbour"))
    adjacency = pymetis.CSRAdjacency(start.read(0, start.rows).astype(width), neighbour.read(0, neighbour.rows).astype(width))
    options = pymetis.Options(objtype=getattr(pymetis.ObjType, objective), seed=seed + 1, ufactor=round(1000 * IMBALANCE))

    def call() -> NDArray[np.int32]:
        found = pymetis.part_graph(parts, adjacency=adjacency, recursive=False, options=options)
        return np.asarray(found.vertex_part, np.int32)

    return call


def _kaminpar(path: Path, parts: int, threads: int, seed: int) -> Callable[[], NDArray[np.int32]]:
    import kaminpar

    kaminpar.reseed(seed)
    partitioner = kaminpar.KaMinPar(threads, kaminpar.default_context())
    loaded = kaminpar.load_graph(str(path), kaminpar.GraphFileFormat.METIS)
    return lambda: np.asarray(partitioner.compute_partition(loaded, parts, IMBALANCE), np.int32)


def _mtkahypar(path: Path, objective: str, parts: int, threads: int, seed: int) -> Callable[[], NDArray[np.int32]]:
    import mtkahypar

    initialised = mtkahypar.initialize(threads)
    mtkahypar.set_seed(seed)
    context = initialised.context_from_preset(mtkahypar.PresetType.DEFAULT)
    context.logging = False
    context.set_partitioning_parameters(parts, IMBALANCE, getattr(mtkahypar.Objective, objective))
    if objective == "KM1":
        loaded = initialised.hypergraph_from_file(str(path), context, mtkahypar.FileFormat.HMETIS)
    else:
        loaded = initialised.graph_from_file(str(path), context, mtkahypar.FileFormat.METIS)
    return lambda: np.asarray(loaded.partition(context).get_partition(), np.int32)
