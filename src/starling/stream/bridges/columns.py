"""Other libraries' arrays and attribute names, turned into Starling's columns and roles."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.stream.raw import CsrRows

Note = str | int | float | bool | None

_NODE_NAMES = {
    "x": ("x", "feat", "feats", "features", "node_feat"),
    "y": ("y", "label", "labels"),
    "train": ("train", "train_mask"),
    "val": ("val", "val_mask", "valid_mask"),
    "test": ("test", "test_mask"),
    "type": ("type", "node_type", "_TYPE"),
    "time": ("time", "node_time", "timestamp"),
}
_EDGE_NAMES = {
    "weight": ("weight", "edge_weight", "w"),
    "attr": ("attr", "edge_attr", "edge_feat", "feat"),
    "type": ("type", "edge_type", "etype", "edge_reltype", "_TYPE"),
    "time": ("time", "edge_time", "timestamp"),
    "split": ("split", "edge_split"),
}


@contextmanager
def quiet() -> Iterator[None]:
    """Keep another library's warnings from a user who can do nothing about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def node_columns(values: Mapping[str, Any]) -> dict[str, NDArray[Any] | CsrRows]:
    """Columns of nodes by role."""
    return {role: column(role, values[name]) for name, role in node_roles(values).items()}


def node_roles(names: Collection[str]) -> dict[str, str]:
    """Role of each attribute of nodes; one that has none keeps its own name."""
    roles = _roles(names, _NODE_NAMES)
    return {name: roles.get(name, name) for name in names}


def known_names(names: Iterable[str]) -> list[str]:
    """The names that mean something to Starling, on nodes or on edges."""
    spellings = {name for known in (_NODE_NAMES, _EDGE_NAMES) for spelled in known.values() for name in spelled}
    return [name for name in names if name in spellings]


def edge_roles(names: Collection[str]) -> dict[str, str]:
    """Role of each attribute of edges that has one."""
    return _roles(names, _EDGE_NAMES)


def _roles(names: Collection[str], known: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """The first name a role is known by takes it; a second stays what it is."""
    roles = {}
    for role, spellings in known.items():
        found = next((spelling for spelling in spellings if spelling in names), None)
        if found is not None:
            roles[found] = role
    return roles


def column(role: str, value: Any) -> NDArray[Any] | CsrRows:
    """A column as the importer wants it: masks as booleans, labels as classes, rows of one number as numbers."""
    array = as_array(value)
    if isinstance(array, CsrRows):
        return array
    if role in ("train", "val", "test"):
        return (array[:, 0] if array.ndim == 2 else array).astype(bool)  # of several splits the first is taken
    if role == "y":
        return _labels(array)
    if role in ("x", "attr"):
        return array.reshape(len(array), -1)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def dense_column(role: str, value: Any) -> NDArray[Any]:
    """A column that must not be sparse."""
    values = column(role, value)
    if isinstance(values, CsrRows):
        raise InputError(f"Expected a dense array of '{role}', got a sparse one. Convert it before importing.")
    return values


def _labels(array: NDArray[Any]) -> NDArray[Any]:
    """Labels in one of three kinds: int64 [N] classes, uint8 [N, C] several classes a node, float32 real numbers."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2 and bool(np.isin(array, (0, 1)).all()):
        return array.astype(np.uint8)
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64)


def as_array(value: Any) -> NDArray[Any] | CsrRows:
    """A NumPy array (or sparse rows) from a torch tensor, a SciPy matrix, an array or nested lists."""
    if hasattr(value, "to_torch_sparse_csr_tensor"):  # torch_sparse.SparseTensor
        value = value.to_torch_sparse_csr_tensor()
    if type(value).__module__.partition(".")[0] == "torch":
        value = value.detach().cpu()
        if str(value.layout) != "torch.strided":
            with quiet():  # torch warns once that sparse rows are new
                value = value.to_sparse_csr()
            return _csr_rows(value.crow_indices().numpy(), value.col_indices().numpy(), value.values().numpy(), value.shape[1])
        return value.float().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy()  # type: ignore[no-any-return]
    if hasattr(value, "tocsr"):
        rows = value.tocsr()
        return _csr_rows(rows.indptr, rows.indices, rows.data, rows.shape[1])
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise InputError(f"Expected numbers, got an array of {array.dtype}. Convert it before importing.")
    return array


def _csr_rows(offsets: Any, columns: Any, values: Any, width: int) -> CsrRows:
    return CsrRows(np.asarray(offsets, np.int64), np.asarray(columns), np.asarray(values), int(width))


def origin(library: str, left_out: Iterable[str] = (), **facts: str) -> dict[str, Note]:
    """What to note about where a graph came from, and which of its attributes did not come along."""
    lost = ", ".join(sorted(set(left_out)))
    return {"library": library, **facts, **({"left_out": lost} if lost else {})}


def pair_arrays(edge_index: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sources and destinations from an array [2, E]."""
    pairs = as_array(edge_index)
    if isinstance(pairs, CsrRows) or pairs.ndim != 2 or len(pairs) != 2:
        shape = "a sparse matrix" if isinstance(pairs, CsrRows) else str(pairs.shape)
        raise InputError(f"Expected an edge_index of shape (2, E), got {shape}.")
    return pairs[0], pairs[1]
