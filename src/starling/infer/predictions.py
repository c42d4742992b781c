"""Predictions of all nodes under the user's ids, as CSV, Parquet or .npy; the file appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.npy import NpyWriter
from starling.engine.row_table import RowTable
from starling.stream.id_index import IdIndex

Meaning = Literal["class", "labels", "numbers"]
"""What outputs are: scores of which the largest is the class, a score for each label (above 0: yes), or the numbers themselves."""

_BLOCK = 1 << 16


@dataclass(frozen=True)
class Predictions:
    """Outputs and what they mean; `names` are the classes' names, or empty where they are numbers."""

    outputs: RowTable
    ids: IdIndex
    meaning: Meaning
    names: tuple[str, ...] = ()

    def blocks(self) -> Iterator[tuple[Any, Any]]:
        """Ids and predictions, a block of nodes at a time: a column, or a matrix for several labels or numbers a node."""
        for start in range(0, self.outputs.count, _BLOCK):
            stop = min(start + _BLOCK, self.outputs.count)
            yield self.ids.user_ids(start, stop), self._meant(self.outputs.read(start, stop))

    def _meant(self, rows: NDArray[np.float32]) -> Any:
        if self.meaning == "class":
            best = rows.argmax(axis=1)
            return pa.array(self.names).take(pa.array(best)) if self.names else best
        if self.meaning == "labels":
            return (rows > 0).astype(np.uint8)
        return rows[:, 0] if rows.shape[1] == 1 else rows


def check_output(path: Path, force: bool) -> None:
    """Refuse an output that cannot be written, before any work is done."""
    if path.suffix not in WRITERS:
        raise InputError(f"Expected an output that ends in {', '.join(WRITERS)}, got '{path.name}'.")
    if path.is_dir():
        raise InputError(f"Expected a file to write, got the directory {path}. Choose another name.")
    if path.exists() and not force:
        raise InputError(f"{path} exists already. Pass --force to replace it, or choose another name.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"Expected an existing folder to put '{path.name}' in, got {path.absolute().parent}. Create it first.")


def write_predictions(predictions: Predictions, path: Path, *, force: bool = False) -> None:
    """Write a prediction for every node, in the order of the graph's nodes."""
    check_output(path, force)
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        WRITERS[path.suffix](predictions, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _write_csv(predictions: Predictions, path: Path) -> None:
    import pyarrow.csv as pacsv

    def spread(ids: Any, values: Any) -> dict[str, Any]:
        if not _is_matrix(values):
            return {"id": ids, "prediction": values}
        columns = {f"prediction_{column}": np.ascontiguousarray(values[:, column]) for column in range(values.shape[1])}
        return {"id": ids, **columns}

    _write_table(predictions, spread, lambda schema: pacsv.CSVWriter(path, schema))


def _write_parquet(predictions: Predictions, path: Path) -> None:
    import pyarrow.parquet as pq

    def listed(ids: Any, values: Any) -> dict[str, Any]:
        if _is_matrix(values):
            values = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
        return {"id": ids, "prediction": values}

    _write_table(predictions, listed, lambda schema: pq.ParquetWriter(path, schema))


def _write_table(predictions: Predictions, arrange: Callable[[Any, Any], dict[str, Any]], open_file: Any) -> None:
    writer = None
    try:
        for ids, values in predictions.blocks():
            batch = pa.RecordBatch.from_pydict({name: pa.array(value) for name, value in arrange(ids, values).items()})
            writer = writer or open_file(batch.schema)
            writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()


def _write_npy(predictions: Predictions, path: Path) -> None:
    """One record a node with the fields `id` and `prediction`; text is as wide as the longest needs."""
    id_type, value_type, shape = _widest(predictions)
    record = np.dtype([("id", id_type), ("prediction", value_type, shape)])
    with NpyWriter(path, record) as file:
        for ids, values in predictions.blocks():
            block = np.empty(len(ids), record)
            block["id"], block["prediction"] = _array(ids), _array(values)
            file.append(block)


def _widest(predictions: Predictions) -> tuple[np.dtype[Any], np.dtype[Any], tuple[int, ...]]:
    id_type, value_type, shape = np.dtype("U1"), np.dtype("U1"), ()
    for number, (ids, values) in enumerate(predictions.blocks()):
        id_block, value_block = _array(ids), _array(values)
        id_type = np.promote_types(id_type, id_block.dtype) if number else id_block.dtype
        value_type = np.promote_types(value_type, value_block.dtype) if number else value_block.dtype
        shape = value_block.shape[1:]
    return id_type, value_type, shape


def _array(values: Any) -> NDArray[Any]:
    return np.array(values.to_pylist(), np.str_) if isinstance(values, pa.Array) else np.asarray(values)


def _is_matrix(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.ndim == 2


WRITERS: dict[str, Callable[[Predictions, Path], None]] = {".csv": _write_csv, ".parquet": _write_parquet, ".npy": _write_npy}
