"""A graph as one ``.npz`` of plain arrays, written a block at a time."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from starling.core.manifest import Table
from starling.core.npy import NpyReader
from starling.core.progress import Progress, Task
from starling.store.graph import EDGES, Graph

_BLOCK_BYTES = 1 << 23
_MASKS = ("train", "val", "test")
NODE_KEYS = {"x": "x", "y": "y", "type": "node_type", "time": "node_time", **{name: f"{name}_mask" for name in _MASKS}}
MANY_SPLITS = tuple(f"{name}_masks" for name in _MASKS)


class NpzWriter:
    """Adds arrays to an uncompressed ``.npz``, each streamed from blocks; the same arrays give the same bytes."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True)

    def add(self, key: str, blocks: Iterable[NDArray[Any]], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Add the array of this type and shape whose rows the blocks hold, one after the other."""
        member = zipfile.ZipInfo(f"{key}.npy")  # without a date of its own it is of 1980, always
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        with self._archive.open(member, "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for block in blocks:
                file.write(np.ascontiguousarray(block, dtype).data)

    def add_array(self, key: str, array: NDArray[Any]) -> None:
        """Add a small array."""
        self.add(key, [array.reshape(1) if array.ndim == 0 else array], array.dtype, array.shape)

    def add_file(self, key: str, path: Path) -> None:
        """Add the array of a ``.npy`` file."""
        reader = NpyReader(path)
        self.add(key, _blocks(reader), reader.dtype, reader.shape)

    def add_transposed(self, key: str, reader: NpyReader, task: Task) -> None:
        """Add the columns of a matrix as rows, reading it once for each column."""

        def columns() -> Iterator[NDArray[Any]]:
            for place in range(reader.shape[1]):
                for block in _blocks(reader):
                    yield block[:, place]
                    task.advance(len(block))

        self.add(key, columns(), reader.dtype, reader.shape[::-1])

    def close(self) -> None:
        """Write the directory of the archive."""
        self._archive.close()


def write_npz(graph: Graph, path: Path, progress: Progress) -> None:
    """Write edges, the tables that have a place in the layout, and a `meta` text.

    ``edge_index`` [2, E] holds positions; ``user_id`` has the user's ids of positions 0 … N − 1 where the two differ. The
    other keys are those of stream/readers/npz.py, which reads it back.
    """
    writer = NpzWriter(path)
    edges = NpyReader(graph.path / EDGES)
    with progress.task("writing edges", 2 * edges.rows, "ends") as task:
        writer.add_transposed("edge_index", edges, task)
    writer.add_array("num_nodes", np.array(graph.nodes))
    for name, key in NODE_KEYS.items():
        if name in graph.manifest.node_tables:
            _add_table(writer, graph, key, graph.manifest.node_tables[name])
    for name in MANY_SPLITS:
        if name in graph.manifest.node_tables:
            reader = NpyReader(graph.path / graph.manifest.node_tables[name].files[0])
            with progress.task(f"writing {name}", reader.rows * reader.shape[1], "values") as task:
                writer.add_transposed(name, reader, task)
    for name, table in graph.manifest.edge_tables.items():
        _add_table(writer, graph, f"edge_{name}", table)
    _add_ids(writer, graph)
    writer.add_array("meta", np.array(_meta(graph)))
    writer.close()


def write_sparse(graph: Graph, table: Table, path: Path) -> None:
    """Write a sparse table as SciPy does (``scipy.sparse.save_npz``)."""
    writer = NpzWriter(path)
    for key, file in zip(("indptr", "indices", "data"), table.files, strict=True):
        writer.add_file(key, graph.path / file)
    writer.add_array("shape", np.array(table.shape))
    writer.add_array("format", np.array(b"csr"))
    writer.close()


def _add_table(writer: NpzWriter, graph: Graph, key: str, table: Table) -> None:
    if table.layout == "dense":
        writer.add_file(key, graph.path / table.files[0])
        return
    for part, file in zip(("indptr", "indices", "data"), table.files, strict=True):
        writer.add_file(f"{key}_{part}", graph.path / file)
    writer.add_array(f"{key}_shape", np.array(table.shape))


def _add_ids(writer: NpzWriter, graph: Graph) -> None:
    if graph.manifest.ids == "position":
        return
    size = 1 << 18
    spans = [(start, min(start + size, graph.nodes)) for start in range(0, graph.nodes, size)]
    if graph.manifest.ids == "integer":
        writer.add("user_id", (np.asarray(graph.ids.user_ids(*span)) for span in spans), np.dtype(np.int64), (graph.nodes,))
        return
    # NumPy's text has one width for all, so the longest must be known first.
    longest = max(pc.max(pc.binary_length(graph.ids.user_ids(*span))).as_py() for span in spans)
    text = np.dtype(f"S{max(1, longest)}")  # UTF-8
    blocks = (np.array(pc.cast(graph.ids.user_ids(*span), pa.binary()).to_pylist(), text) for span in spans)
    writer.add("user_id", blocks, text, (graph.nodes,))


def _meta(graph: Graph) -> str:
    manifest = graph.manifest
    facts = {
        **manifest.origin,
        "num_nodes": manifest.nodes,
        "num_edges": manifest.edges,
        "node_types": manifest.node_types,
        "edge_types": manifest.edge_types,
        "label_names": manifest.labels.names if manifest.labels else (),
    }
    return json.dumps(facts, ensure_ascii=False)


def _blocks(reader: NpyReader) -> Iterator[NDArray[Any]]:
    row_bytes = reader.dtype.itemsize * int(np.prod(reader.shape[1:], dtype=np.int64))
    return reader.blocks(max(1, _BLOCK_BYTES // max(1, row_bytes)))
