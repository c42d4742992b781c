"""Numbers of every node that no table has, such as its in-degree, as one table of the key-value store: a row has all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.tables import InPlaceTable

OfPart = Callable[[int], NDArray[Any]]
"""From a part to the numbers of its own nodes, in order."""


class NodeColumns(InPlaceTable):
    """Some columns by name, each with its type; one of a part is opened when a node of the part is first asked for.

    A row is a record (numpy's structured type), put together when it is read: columns stay where they are, files mostly.
    """

    def __init__(self, columns: Mapping[str, tuple[OfPart, Any]]) -> None:
        self.dtype = np.dtype([(name, kind) for name, (_, kind) in columns.items()])
        self.row_shape = ()
        self._columns = {name: of_part for name, (of_part, _) in columns.items()}
        self._opened: dict[tuple[str, int], NDArray[Any]] = {}
        self._lock = threading.Lock()

    def move(self, part: int, rows: NDArray[Any], out: NDArray[Any], places: NDArray[Any]) -> None:
        """Copy rows of a part's own nodes to places of a matrix of words."""
        records = out.view(self.dtype)[:, 0]
        for name in self._columns if len(rows) else ():
            records[name][places] = self._part(name, part)[rows]

    def _part(self, name: str, part: int) -> NDArray[Any]:
        with self._lock:
            if (name, part) not in self._opened:
                self._opened[name, part] = np.asarray(self._columns[name](part))
            return self._opened[name, part]
