"""``.npy`` files: edges, features or labels."""

from __future__ import annotations

import math

from starling.core.errors import InputError
from starling.stream.raw import IdKind
from starling.stream.readers.edges import StoredEdges
from starling.stream.readers.files import existing
from starling.stream.readers.prepared import Prepared, Settings
from starling.stream.readers.rows import DenseRows, as_float32, as_they_are
from starling.stream.readers.stored import FileContent, StoredArray
from starling.stream.readers.table import StoredTable


def open_npy(name: str) -> StoredArray:
    """The array of a ``.npy`` file."""
    return StoredArray(FileContent(existing(name), name))


def edges_of(array: StoredArray, settings: Settings, *, as_columns: bool = False) -> Prepared[StoredEdges]:
    """The edges of an integer array, E×2 or 2×E.

    A 2×2 array can be either: it is read as E×2, unless `as_columns` says that an edge is a column (as in `edge_index`).
    """
    pairs, word = edge_pairs(array, as_columns=as_columns)

    def make(kind: IdKind) -> StoredEdges:
        return StoredEdges(pairs, {}, kind, settings.block, word)

    return Prepared("integer", make)


def edge_pairs(array: StoredArray, *, as_columns: bool = False) -> tuple[StoredArray, str]:
    """The array turned so that a row is an edge, and what an edge is in it as stored: a row or a column."""
    if array.dtype.kind not in "iu":
        raise InputError(f"Expected whole numbers (node ids) in {array.name}, got {array.dtype}. Save it as int64.")
    shape = array.shape
    if len(shape) == 2 and shape[1] == 2 and not (as_columns and shape[0] == 2):
        return array, "row"
    if len(shape) == 2 and shape[0] == 2:
        return array.transposed(), "column"
    raise InputError(f"Expected edges of shape E×2 or 2×E in {array.name}, got {described(shape)}.")


def features_of(array: StoredArray) -> DenseRows:
    """Features: float32 [N, F]."""
    if array.dtype.kind not in "biuf" or not 1 <= len(array.shape) <= 2:
        raise InputError(f"Expected numbers of shape N×F in {array.name}, got {array.dtype} of shape {described(array.shape)}.")
    return DenseRows(array, as_float32)


def labels_of(array: StoredArray) -> DenseRows:
    """Labels: a class, its name or a number a node, [N], or a column of 0 and 1 a class, [N, C]."""
    if not 1 <= len(array.shape) <= 2:
        raise InputError(f"Expected labels of shape N or N×C in {array.name}, got {described(array.shape)}.")
    if len(array.shape) == 2 and array.dtype.kind in "US":
        raise InputError(f"Expected one label a node in {array.name}, got text of shape {described(array.shape)}.")
    return DenseRows(array, as_they_are)


def npy_table(name: str, option: str, settings: Settings) -> Prepared[StoredTable]:
    """A ``.npy`` as features or labels; as a nodes table it is features."""
    array = open_npy(name)
    if option == "nodes" and len(array.shape) != 2:
        raise InputError(f"Expected features of shape N×F in {name}, got {described(array.shape)}. Labels go to --labels.")
    role = "y" if option == "labels" else "x"
    rows = labels_of(array) if option == "labels" else features_of(array)
    return Prepared(None, lambda kind: StoredTable(name, {role: rows}, budget=settings.block))


def described(shape: tuple[int, ...]) -> str:
    """``(3, 5)`` as ``3×5``."""
    if not shape:
        return "a single number"
    return "×".join(map(str, shape)) if math.prod(shape) or len(shape) > 1 else f"{shape[0]}"
