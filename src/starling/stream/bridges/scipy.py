"""SciPy sparse adjacency matrices."""

from __future__ import annotations

from typing import Any

from starling.core.errors import InputError
from starling.stream.arrays import ArrayEdges
from starling.stream.bridges.columns import origin
from starling.stream.raw import RawGraph


def raw_from_scipy(matrix: Any) -> RawGraph:
    """The graph of a square sparse matrix: a stored entry A[u, v] = w is the edge u → v of weight w.

    An entry stored as zero is an edge of weight zero. Where all entries are 1 (or True) there are no weights.
    """
    if not hasattr(matrix, "tocoo") or not hasattr(matrix, "shape"):
        raise InputError(f"Expected a SciPy sparse matrix, got {type(matrix).__name__}.")
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"Expected a square adjacency matrix, got one of shape {matrix.shape}.")
    entries = matrix.tocoo()
    if entries.data.dtype.kind not in "biuf":
        raise InputError(f"Expected an adjacency matrix of real numbers, got {entries.data.dtype}.")
    weights = {} if bool((entries.data == 1).all()) else {"weight": entries.data}
    return RawGraph(
        edges=ArrayEdges((entries.row, entries.col), weights, name="the matrix"),
        nodes=int(matrix.shape[0]),
        origin=origin("scipy"),
    )
