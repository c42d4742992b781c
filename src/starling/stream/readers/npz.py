"""``.npz`` archives: an edge array, a node table, a sparse matrix, or a whole graph in one file.

The whole-graph layout has ``edge_index`` [2, E] and ``num_nodes``, and where there are such ``x`` [N, F] or its compressed
sparse rows ``x_data``, ``x_indices``, ``x_indptr``, ``x_shape``; ``y`` [N] or [N, C]; ``train_mask``, ``val_mask``,
``test_mask`` [N] and, for several splits, ``train_masks`` … [K, N]; ``node_type``, ``node_time``; ``edge_weight``,
``edge_attr``, ``edge_type``, ``edge_time``, ``edge_split``; and ``meta``, a JSON text with name, source and licence.
Where nodes have ids other than their numbers, ``user_id`` [N] holds them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable

import numpy as np

from starling.core.errors import InputError, nearest
from starling.stream.raw import IdKind, Ids
from starling.stream.readers.edges import StoredEdges
from starling.stream.readers.files import existing, sound
from starling.stream.readers.npy import described, edge_pairs, features_of, labels_of
from starling.stream.readers.prepared import Prepared, Settings
from starling.stream.readers.rows import DenseRows, Rows, SparseRows, as_float32, as_mask, as_text, as_they_are, to_float32
from starling.stream.readers.stored import MemberContent, StoredArray
from starling.stream.readers.table import StoredTable

_EDGE_KEYS = ("edge_index", "edges")
_ID_KEYS = ("id", "ids", "node_id", "node_ids")
_USER_IDS = "user_id"
_SPARSE_KEYS = ("x_data", "x_indices", "x_indptr", "x_shape")
_SCIPY_KEYS = ("data", "indices", "indptr", "shape")
_FEATURE_KEYS, _LABEL_KEYS = ("x", "features"), ("y", "labels", "label")
_EDGE_ROLES = {f"edge_{role}": role for role in ("weight", "attr", "type", "time", "split")}
_NODE_ROLES = (
    dict.fromkeys(_FEATURE_KEYS, "x")
    | dict.fromkeys(_LABEL_KEYS, "y")
    | {f"{split}_mask": split for split in ("train", "val", "test")}
    | {f"{split}_masks": f"{split}_masks" for split in ("train", "val", "test")}
    | {"node_type": "type", "node_time": "time"}
)
_GRAPH_KEYS = (*_EDGE_KEYS, *_EDGE_ROLES, *_NODE_ROLES, *_SPARSE_KEYS, _USER_IDS, "num_nodes", "meta")
_TABLE_KEYS = (*_ID_KEYS, *_NODE_ROLES, *_SPARSE_KEYS)


class Archive:
    """The arrays of one ``.npz``, by name."""

    def __init__(self, name: str) -> None:
        self.name, self._path = name, existing(name)
        with sound(name), zipfile.ZipFile(self._path) as archive:
            self._members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        self.keys = tuple(self._members)

    def __contains__(self, key: str) -> bool:
        return key in self._members

    def array(self, key: str) -> StoredArray:
        """One array."""
        return StoredArray(MemberContent(self._path, self._members[key], f"{key} in {self.name}"))

    def whole_number(self, key: str) -> int:
        """An array that is one whole number."""
        array = self.array(key)
        if array.dtype.kind not in "iu" or array.rows * array.row_bytes != array.dtype.itemsize:
            raise InputError(f"Expected one whole number in {array.name}, got {array.dtype} of shape {described(array.shape)}.")
        return int(array.whole().reshape(()))

    def refuse_unknown(self, known: tuple[str, ...]) -> None:
        """Every array must be one that is understood."""
        for key in self.keys:
            if key not in known:
                raise InputError(f"{self.name} holds the array '{key}', which has no meaning here. {nearest(key, known)}")

    def one_of(self, keys: tuple[str, ...], what: str) -> str:
        """The one of `keys` that is there, or the only array there is."""
        found = [key for key in keys if key in self]
        if len(found) == 1 or (not found and len(self.keys) == 1):
            return found[0] if found else self.keys[0]
        raise InputError(
            f"Expected {what} in {self.name} as the array {' or '.join(keys)}, or as its only array, "
            f"got {', '.join(self.keys) or 'no array'}."
        )


def npz_edges(archive: Archive, settings: Settings) -> Prepared[StoredEdges]:
    """The edges of an archive, with the arrays that have a row an edge."""
    key = archive.one_of(_EDGE_KEYS, "edges")
    pairs, word = edge_pairs(archive.array(key), as_columns=key == "edge_index")
    columns = {role: _edge_rows(archive.array(name), role) for name, role in _EDGE_ROLES.items() if name in archive}

    def make(kind: IdKind) -> StoredEdges:
        return StoredEdges(pairs, columns, kind, settings.block, word)

    return Prepared("integer", make)


def is_whole_graph(archive: Archive) -> bool:
    """Whether the archive is more than edges; such a one must have no array that is not understood."""
    if not any(key in archive for key in _EDGE_KEYS) or len(archive.keys) == 1:
        return False
    archive.refuse_unknown(_GRAPH_KEYS)
    return True


def user_ids(archive: Archive, *, text: bool) -> Ids | None:
    """The ids of nodes 0, 1, … of a whole graph, all of them, as text if asked; None where they are the numbers themselves."""
    if _USER_IDS not in archive:
        return None
    array = archive.array(_USER_IDS)
    _check(array, (1,), "iuUS")
    with array.open() as read:
        ids = read(0, array.rows)
    return as_text(ids) if text or array.dtype.kind in "US" else ids.astype(np.int64)


def npz_nodes(archive: Archive, settings: Settings, *, nodes: int | None = None) -> Prepared[StoredTable] | None:
    """The arrays of an archive that have a row a node, as one table; None where there are none."""
    columns: dict[str, Rows] = {}
    if all(key in archive for key in _SPARSE_KEYS):
        columns["x"] = _sparse(archive, _SPARSE_KEYS)
    for key, role in _NODE_ROLES.items():
        if key in archive:
            if role in columns:
                raise InputError(f"{archive.name} gives {role} twice, the second time as '{key}'. Keep one.")
            columns[role] = _node_rows(archive.array(key), role, nodes)
    ids = [archive.array(key) for key in _ID_KEYS if key in archive][:1]
    for array in ids:
        if len(array.shape) != 1 or array.dtype.kind not in "iuUS":
            raise InputError(f"Expected node ids in {array.name}, got {array.dtype} of shape {described(array.shape)}.")
    if not columns and not ids:
        return None
    looks: IdKind | None = None if not ids else "integer" if ids[0].dtype.kind in "iu" else "string"

    def make(kind: IdKind) -> StoredTable:
        if kind == "integer" and looks == "string":
            raise InputError(f"Expected whole numbers in {ids[0].name}, got text. Pass --ids string.")
        ids_array = ids[0] if ids else None
        return StoredTable(archive.name, columns, budget=settings.block, ids=ids_array, kind=kind, defines_nodes=bool(ids))

    return Prepared(looks, make)


def npz_table(name: str, option: str, settings: Settings) -> Prepared[StoredTable]:
    """A ``.npz`` given as nodes, features or labels."""
    archive = Archive(name)
    if option == "nodes":
        archive.refuse_unknown(_TABLE_KEYS)
        table = npz_nodes(archive, settings)
        if table is None:
            raise InputError(f"{name} holds no arrays. Create it again.")
        return table
    if option == "labels":
        role, rows = "y", labels_of(archive.array(archive.one_of(_LABEL_KEYS, "labels")))
        return Prepared(None, lambda kind: StoredTable(name, {role: rows}, budget=settings.block))
    features = _features(archive)
    return Prepared(None, lambda kind: StoredTable(name, {"x": features}, budget=settings.block))


def _features(archive: Archive) -> Rows:
    if "format" in archive:
        layout = str(archive.array("format").whole().astype(str).reshape(-1)[0])
        if layout != "csr":
            raise InputError(f"Expected a sparse matrix in csr format in {archive.name}, got {layout}. Save matrix.tocsr().")
        return _sparse(archive, _SCIPY_KEYS)
    if all(key in archive for key in _SPARSE_KEYS):
        return _sparse(archive, _SPARSE_KEYS)
    return features_of(archive.array(archive.one_of(_FEATURE_KEYS, "features")))


def _sparse(archive: Archive, keys: tuple[str, ...]) -> SparseRows:
    for key in keys:
        if key not in archive:
            raise InputError(f"Expected the arrays {', '.join(keys)} of a sparse matrix in {archive.name}, '{key}' is missing.")
    values, columns, offsets, shape = (archive.array(key) for key in keys)
    lengths = shape.whole().reshape(-1)
    if shape.dtype.kind not in "iu" or len(lengths) != 2 or lengths.min() < 0:
        raise InputError(f"Expected two lengths in {shape.name}, got {shape.dtype} of shape {described(shape.shape)}.")
    return SparseRows(offsets, columns, values, rows=int(lengths[0]), width=int(lengths[1]))


def _edge_rows(array: StoredArray, role: str) -> Rows:
    dimensions, kinds = {"attr": ((1, 2), "biuf"), "type": ((1,), "iuUS"), "split": ((1,), "iu")}.get(role, ((1,), "biuf"))
    _check(array, dimensions, kinds)
    if role in ("weight", "attr"):
        flat: Callable[..., object] = as_float32 if role == "attr" else lambda values, start: to_float32(values)
        return DenseRows(array, flat)
    return DenseRows(array, as_they_are)


def _node_rows(array: StoredArray, role: str, nodes: int | None) -> Rows:
    if role == "x":
        return features_of(array)
    if role == "y":
        return labels_of(array)
    if role in ("type", "time"):
        _check(array, (1,), "iuUS" if role == "type" else "iuf")
        return DenseRows(array, as_they_are)
    _check(array, (2,) if role.endswith("_masks") else (1,), "biu")
    if len(array.shape) == 2 and not (array.shape[0] == nodes != array.shape[1]):
        array = array.transposed()  # a split a row, as stored; a node a row, as wanted
    return DenseRows(array, as_mask(array.name))


def _check(array: StoredArray, dimensions: tuple[int, ...], kinds: str) -> None:
    if len(array.shape) not in dimensions or array.dtype.kind not in kinds:
        expected = "numbers or names" if "U" in kinds else "numbers" if "f" in kinds else "whole numbers"
        expected = "true or false" if kinds == "biu" else expected
        raise InputError(
            f"Expected {expected} with {' or '.join(map(str, dimensions))} dimension{'s' if dimensions != (1,) else ''} in "
            f"{array.name}, got {array.dtype} of shape {described(array.shape)}."
        )
