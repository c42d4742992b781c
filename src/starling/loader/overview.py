"""What every rank knows of all nodes, though its host need have no other shards than those of its own ranks.

Shards of this host are read; what others hold is told by their ranks, once, when a loader is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.places import Places
from starling.engine.hybrid.messages.calls import Calls
from starling.kernels.csr import index_type
from starling.store.parts import Shard


class Overview:
    """Where each node stood in the imported graph, and whatever whole numbers shards have to tell.

    On one host positions are mapped from the directory's files; else they are gathered, 8 or 16 bytes a node.
    """

    def __init__(self, places: Places, calls: Calls) -> None:
        self.parts, self._places, self._calls = places.parts, places, calls
        self.position_of_global: NDArray[Any]
        self.global_of_position: NDArray[Any]
        if not places.far:
            self.position_of_global, self.global_of_position = self.parts.position_of_global, self.parts.global_of_position
            return
        told = self.told(lambda shard: shard.position[: shard.owned])
        kind = index_type(len(told))
        self.position_of_global, self.global_of_position = told.astype(kind), np.empty(len(told), kind)
        self.global_of_position[told] = np.arange(len(told), dtype=kind)

    def told(self, read: Callable[[Shard], NDArray[Any]]) -> NDArray[np.int64]:
        """What `read` finds in each shard, one part after the other; every rank calls this at the same time."""
        places, team = self._places, self._places.team
        mine = self._read(places.own, read)
        tag = self._calls.next_tag()
        others = team.ask(places.far, tag, dict.fromkeys(places.far, mine))
        others[team.rank] = mine
        for worker in team.near:
            others[worker] = self._read(places.parts_of(worker), read)
        return np.concatenate([others[worker] for worker in range(team.size)])  # workers own consecutive parts

    def _read(self, parts: range, read: Callable[[Shard], NDArray[Any]]) -> NDArray[np.int64]:
        found = [np.asarray(read(self.parts.shard(part)), np.int64) for part in parts]
        return np.concatenate([np.empty(0, np.int64), *found])
