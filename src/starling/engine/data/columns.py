"""Numbers of every node that no table has, such as its in-degree: read in place on this host, asked of owners elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.places import Places
from starling.engine.data.rounds import receive_arrays, send_array
from starling.engine.hybrid.exchange import Calls
from starling.kernels.stitch import Grouped, group_by_range

OfPart = Callable[[int], NDArray[Any]]
"""From a part to the numbers of its own nodes, in order."""


class NodeColumns:
    """Some columns by name, each with its type; one of a part is opened when a node of the part is first asked for."""

    def __init__(self, places: Places, columns: Mapping[str, tuple[OfPart, Any]]) -> None:
        self._places, self._columns = places, dict(columns)
        self._opened: dict[tuple[str, int], NDArray[Any]] = {}
        self._lock = threading.Lock()

    def values(self, ids: NDArray[Any], calls: Calls) -> dict[str, NDArray[Any]]:
        """All columns of nodes given by global id; one round with workers of other hosts, if there are such."""
        places, team, far = self._places, self._places.team, self._places.far
        grouped = group_by_range(ids, places.parts.offsets)
        found = self._read(ids, grouped, places.here)
        if not far:
            return found
        theirs = {w: grouped.of(places.parts_of(w).start, places.parts_of(w).stop) for w in far}
        asked = team.ask(far, calls.forward(), {worker: ids[at] for worker, at in theirs.items()})
        tags = {name: calls.forward() for name in self._columns}
        for worker, wanted in asked.items():
            answers = self._read(wanted, group_by_range(wanted, places.parts.offsets), places.own)
            for name, values in answers.items():
                send_array(team, worker, tags[name], values)
        counts = {worker: len(at) for worker, at in theirs.items()}
        for name, values in found.items():
            for worker, numbers in receive_arrays(team, tags[name], counts, values.dtype).items():
                values[theirs[worker]] = numbers
        return found

    def _read(self, ids: NDArray[Any], grouped: Grouped, parts: range | tuple[int, ...]) -> dict[str, NDArray[Any]]:
        """The numbers of nodes in these parts; places of others are left as they are."""
        found: dict[str, NDArray[Any]] = {name: np.empty(len(ids), dtype) for name, (_, dtype) in self._columns.items()}
        for part in parts:
            at = grouped.of(part, part + 1)
            if len(at):
                rows = ids[at] - self._places.parts.offsets[part]
                for name, values in found.items():
                    values[at] = self._part(name, part)[rows]
        return found

    def _part(self, name: str, part: int) -> NDArray[Any]:
        with self._lock:
            if (name, part) not in self._opened:
                self._opened[name, part] = np.asarray(self._columns[name][0](part))
            return self._opened[name, part]
