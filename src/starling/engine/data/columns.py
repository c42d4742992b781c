"""Numbers of nodes or edges that no file has as a table, such as in-degrees: one table of the store, a row having all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.tables import InPlaceTable

OfPart = Callable[[int], NDArray[Any]]
"""From a part to the numbers of its own nodes, or of the entries of its lists, in order."""


class Columns(InPlaceTable):
    """Some columns by name, each with its type; one of a part is opened when a row of the part is first asked for.

    A row is a record (numpy's structured type), put together when it is read: columns stay where they are, files mostly.
    """

    def __init__(self, columns: Mapping[str, tuple[OfPart, Any]]) -> None:
        self.dtype = np.dtype([(name, kind) for name, (_, kind) in columns.items()])
        self.row_shape = ()
        self._columns = {name: of_part for name, (of_part, _) in columns.items()}
        self._opened: dict[tuple[str, int], NDArray[Any]] = {}
        self._lock = threading.Lock()

    def move(self, part: int, rows: NDArray[Any], out: NDArray[Any], places: NDArray[Any]) -> None:
        """Copy rows of a part to places of a matrix of words."""
        records = out.view(self.dtype)[:, 0]
        for name in self._columns if len(rows) else ():
            records[name][places] = self._part(name, part)[rows]

    def _part(self, name: str, part: int) -> NDArray[Any]:
        with self._lock:
            if (name, part) not in self._opened:
                self._opened[name, part] = np.asarray(self._columns[name](part))
            return self._opened[name, part]
