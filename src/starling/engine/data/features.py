"""Features of sampled nodes, pulled out of the store: one table for all nodes, one for each node type, or none."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.kv import KeyValueStore, Pending
from starling.engine.features import Features
from starling.engine.hybrid.messages.calls import Calls
from starling.store.policies import TypedRanges

Scaled = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""How features are normalised, row by row."""


@dataclass(frozen=True, eq=False)
class BegunFeatures:
    """Features on their way by these `pulls`: `rows` waits for them.

    `bare` are places of nodes of types without any; None: there are no types.
    """

    pulls: tuple[Pending, ...]
    rows: Callable[[], NDArray[np.float32]]
    bare: NDArray[np.int64] | None = None


class PulledFeatures(ABC):
    """Where features of nodes come from; every worker begins and reads in the same order."""

    @abstractmethod
    def begin(self, nodes: NDArray[Any], calls: Calls, *, counted: bool = True, distinct: bool = False) -> BegunFeatures:
        """Ask for the features of nodes, given by global id; `counted` and `distinct` as of `KeyValueStore.begin_pull`."""


class OneTable(PulledFeatures):
    """The table 'x', or rows of no numbers where there is none."""

    def __init__(self, store: KeyValueStore, scaled: Scaled | None = None) -> None:
        self._store, self._scaled = store, scaled
        self._there = "x" in store.places.parts.manifest.node_tables

    def begin(self, nodes: NDArray[Any], calls: Calls, *, counted: bool = True, distinct: bool = False) -> BegunFeatures:
        """Ask for rows of 'x'."""
        if not self._there:
            return BegunFeatures((), lambda: np.empty((len(nodes), 0), np.float32))
        pending = self._store.begin_pull("x", nodes, calls, counted=counted, distinct=distinct)
        return BegunFeatures((pending,), lambda: _matrix(pending.rows(), self._scaled))


class ReadHere(PulledFeatures):
    """Features of all nodes by global id that this process reads itself, and asks nobody for."""

    def __init__(self, features: Features) -> None:
        self._features = features

    def begin(self, nodes: NDArray[Any], calls: Calls, *, counted: bool = True, distinct: bool = False) -> BegunFeatures:
        """Nothing is under way: rows are read when they are wanted."""
        return BegunFeatures((), lambda: self._features.rows(nodes))


@dataclass(frozen=True, eq=False)
class TypeTable:
    """The features of one node type: the name of their table, or None, and how they are normalised."""

    name: str | None
    scaled: Scaled | None = None


class TablesByType(PulledFeatures):
    """A table for each node type, as rows of `width` columns: a type's own, zeros, the type's code (`typed_features.py`)."""

    def __init__(self, store: KeyValueStore, tables: Sequence[TypeTable], width: int) -> None:
        self._store, self._tables, self._width = store, tuple(tables), width
        self._ranges = TypedRanges(store.places.parts.manifest)

    def begin(self, nodes: NDArray[Any], calls: Calls, *, counted: bool = True, distinct: bool = False) -> BegunFeatures:
        """Ask for each type's table for its nodes: their types follow from their ids."""
        codes = self._ranges.types_of(nodes)
        places = [np.flatnonzero(codes == code) for code in range(len(self._tables))]
        pulls = [
            None
            if table.name is None
            else self._store.begin_pull(table.name, nodes[mine], calls, counted=counted, distinct=distinct)
            for table, mine in zip(self._tables, places, strict=True)
        ]

        def rows() -> NDArray[np.float32]:
            out = np.zeros((len(nodes), self._width), np.float32)
            out[:, -1] = codes
            for table, mine, pending in zip(self._tables, places, pulls, strict=True):
                if pending is not None:
                    found = _matrix(pending.rows(), table.scaled)
                    out[mine, : found.shape[1]] = found
            return out

        without = [mine for table, mine in zip(self._tables, places, strict=True) if table.name is None]
        begun = tuple(pending for pending in pulls if pending is not None)
        return BegunFeatures(begun, rows, np.sort(np.concatenate([np.empty(0, np.int64), *without])))


def _matrix(rows: NDArray[Any], scaled: Scaled | None) -> NDArray[np.float32]:
    matrix = rows.reshape(len(rows), math.prod(rows.shape[1:])).astype(np.float32, copy=False)
    return matrix if scaled is None else scaled(matrix)
