"""A number for every node that no table has, such as its in-degree: read in place on this host, asked of owners elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.places import Places
from starling.engine.data.rounds import ask, receive_array, send_array
from starling.engine.hybrid.exchange import Calls
from starling.kernels.stitch import group_by_range


class NodeColumn:
    """`of_part` gives the numbers of a part's own nodes, in order; it is asked once for each part that is read here."""

    def __init__(self, places: Places, of_part: Callable[[int], NDArray[Any]], dtype: Any) -> None:
        self._places, self._of_part, self._dtype = places, of_part, np.dtype(dtype)
        self._opened: dict[int, NDArray[Any]] = {}
        self._lock = threading.Lock()

    def values(self, ids: NDArray[Any], calls: Calls) -> NDArray[Any]:
        """The numbers of nodes given by global id; one round with workers of other hosts, if there are such."""
        places, team, far = self._places, self._places.team, self._places.far
        out = np.empty(len(ids), self._dtype)
        grouped = group_by_range(ids, places.parts.offsets)
        if far:
            theirs = {w: grouped.of(places.parts_of(w).start, places.parts_of(w).stop) for w in far}
            asked = ask(team, far, calls.forward(), {worker: ids[found] for worker, found in theirs.items()})
            tag = calls.forward()
            for worker, wanted in asked.items():
                send_array(team, worker, tag, self._here(wanted))
            for worker, found in theirs.items():
                out[found] = receive_array(team, worker, tag, (len(found),), self._dtype)
        for part in places.here:
            found = grouped.of(part, part + 1)
            if len(found):
                out[found] = self._part(part)[ids[found] - places.parts.offsets[part]]
        return out

    def _here(self, ids: NDArray[Any]) -> NDArray[Any]:
        """The numbers of nodes in own parts."""
        places, out = self._places, np.empty(len(ids), self._dtype)
        grouped = group_by_range(ids, places.parts.offsets)
        for part in places.own:
            found = grouped.of(part, part + 1)
            out[found] = self._part(part)[ids[found] - places.parts.offsets[part]]
        return out

    def _part(self, part: int) -> NDArray[Any]:
        with self._lock:
            if part not in self._opened:
                self._opened[part] = np.asarray(self._of_part(part)).astype(self._dtype, copy=False)
            return self._opened[part]
