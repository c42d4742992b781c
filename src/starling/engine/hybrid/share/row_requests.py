"""Rows of any nodes, wherever they are computed: a worker asks the owners, who send them as they send rows to mirrors.

Both ends of a pair are rarely with one worker, and a negative may be anywhere. Once asked for, rows move without an index: the
asker knows in which order they come, and gradients go back the same way (`TeamExchange.pull`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.team import Team
from starling.engine.hybrid.messages.traffic import Traffic, make_traffic
from starling.engine.hybrid.share.worker_graph import WorkerGraph, bounds_of_workers
from starling.kernels.csr import index_type


@dataclass(frozen=True, eq=False)
class Addresses:
    """Who owns the node at each position: 4 or 8 bytes a node. Worker w owns global ids bounds[w] … bounds[w + 1] − 1."""

    bounds: NDArray[np.int64]
    global_of_position: NDArray[Any]
    position_of_global: NDArray[Any]
    rank: int

    @property
    def first(self) -> int:
        """The first global id of this worker."""
        return int(self.bounds[self.rank])

    def own_rows(self, positions: NDArray[Any]) -> NDArray[np.int64]:
        """The own row of the node at each position, −1 for nodes of others."""
        ids = np.asarray(self.global_of_position[positions], np.int64)
        mine = (ids >= self.first) & (ids < self.bounds[self.rank + 1])
        return np.where(mine, ids - self.first, -1)

    def by_owner(self, ids: NDArray[Any]) -> list[NDArray[np.int64]]:
        """Ascending global ids, cut by owner, as rows there."""
        cuts = np.searchsorted(ids, self.bounds)
        return [ids[cuts[w] : cuts[w + 1]] - self.bounds[w] for w in range(len(self.bounds) - 1)]


def find_addresses(graph: WorkerGraph, team: Team, tag: int) -> Addresses:
    """Everybody tells the positions of its own nodes."""
    manifest = graph.manifest
    told = np.concatenate(team.all_lists(tag, graph.position[: graph.owned]))
    kind = index_type(manifest.nodes)
    global_of_position = np.empty(manifest.nodes, kind)
    global_of_position[told] = np.arange(manifest.nodes, dtype=kind)
    return Addresses(bounds_of_workers(manifest, team.size), global_of_position, told.astype(kind), team.rank)


@dataclass(frozen=True, eq=False)
class RowRequest:
    """`own` are own rows that anybody reads, ascending; `place` is where each row asked for is: among these, then others'."""

    own: NDArray[np.int64]
    traffic: Traffic
    place: NDArray[np.int64]


def request_rows(
    addresses: Addresses, team: Team, tag: int, positions: NDArray[Any], *, all_own: int | None = None
) -> RowRequest:
    """Ask for the rows of nodes by position, any number of times each; with `all_own`, `own` are all so many own rows."""
    ids, where = np.unique(addresses.global_of_position[positions].astype(np.int64), return_inverse=True)
    wanted = addresses.by_owner(ids)
    mine = wanted[team.rank]
    asked = [rows if worker != team.rank else rows[:0] for worker, rows in enumerate(wanted)]
    theirs = team.swap_lists(tag, asked)
    own = np.arange(all_own, dtype=np.int64) if all_own is not None else np.unique(np.concatenate([mine, *theirs]))
    place = np.empty(len(ids), np.int64)
    is_mine = (ids >= addresses.first) & (ids < addresses.bounds[team.rank + 1])
    place[is_mine] = np.searchsorted(own, mine)
    place[~is_mine] = len(own) + np.arange(len(ids) - len(mine))
    traffic = make_traffic(len(own), [np.searchsorted(own, rows) for rows in theirs], [len(rows) for rows in asked])
    return RowRequest(own, traffic, place[where.reshape(-1)])
