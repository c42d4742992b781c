"""Neighbours of any rows of a partitioned graph, one hop at a time: of the whole graph, or of a worker's own parts.

Choices are keyed by a row's position in the imported graph, so it makes no difference who draws: the answer is the same for any
number of workers, threads and parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.lists import AllLists
from starling.engine.data.local import global_ids, local_source
from starling.engine.data.places import Places
from starling.engine.hybrid.messages.calls import Calls
from starling.kernels.sampling import Taken
from starling.kernels.stitch import Piece, group_by_range, stitch
from starling.plan.hops import HopSampler, Moment
from starling.plan.source import ENDS_ALONE, EdgeColumns, NeighbourSource

MakeHops = Callable[[NeighbourSource], Sequence[HopSampler]]
"""From a part's lists to a sampler for each hop, the targets' own first."""


class Neighbourhood(ABC):
    """Rows with neighbours. What a row is called here is the subclass's choice; `ids` tells its global id."""

    rows: int
    """Rows are numbers below this."""

    @abstractmethod
    def rows_of(self, ids: NDArray[Any]) -> NDArray[Any]:
        """The rows of targets given by global id, as kernels want them."""

    @abstractmethod
    def ids(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Global ids of rows."""

    @abstractmethod
    def take(self, rows: NDArray[Any], moment: Moment, calls: Calls) -> Taken:
        """In-edges of the rows of one hop, each row once; all workers ask for the same hops in the same order."""


class AllParts(Neighbourhood):
    """The whole partitioned graph; rows are global ids."""

    def __init__(self, places: Places, make_hops: MakeHops, columns: EdgeColumns = ENDS_ALONE, *, entries: bool = True) -> None:
        self.rows, self._id_type = places.parts.manifest.nodes, places.id_type
        self._lists = AllLists(places, make_hops, columns, entries=entries)

    def rows_of(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Global ids are rows."""
        return np.ascontiguousarray(ids, self._id_type)

    def ids(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows are global ids."""
        return rows

    def take(self, rows: NDArray[Any], moment: Moment, calls: Calls) -> Taken:
        """From parts of this host at once, from others by a round with their owners."""
        return self._lists.edges(rows, calls, lambda hops, local, _: hops[moment.hop].take(local, moment))


class OwnParts(Neighbourhood):
    """This worker's parts, each by itself with its halo (`--local-only`): nothing is asked of anybody.

    A row stands for a node as one part sees it, so a halo node of two parts is two rows: `bases` [parts + 1] is where each part's
    local rows begin.
    """

    def __init__(self, places: Places, make_hops: MakeHops, columns: EdgeColumns = ENDS_ALONE, *, entries: bool = True) -> None:
        self._places, self._entries = places, entries
        shards = [places.parts.shard(part) for part in places.own]
        self._bases = np.concatenate([[0], np.cumsum([shard.local for shard in shards])]).astype(np.int64)
        self.rows = int(self._bases[-1])
        self._ids = np.concatenate([np.empty(0, np.int64), *(global_ids(shard) for shard in shards)])
        self._hops = [make_hops(local_source(shard, columns)) for shard in shards]
        self._names = np.arange(self.rows, dtype=np.int32)

    def rows_of(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Own nodes, each in the part that owns it."""
        first, offsets = self._places.own.start, self._places.parts.offsets
        part = np.searchsorted(offsets, ids, side="right") - 1
        rows: NDArray[Any] = (self._bases[part - first] + ids - offsets[part]).astype(np.int32)
        return rows

    def ids(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The nodes that rows stand for."""
        ids: NDArray[Any] = self._ids[rows]
        return ids

    def take(self, rows: NDArray[Any], moment: Moment, calls: Calls) -> Taken:
        """From each part what it has."""
        grouped = group_by_range(rows, self._bases)
        pieces = []
        for number, (part, hops) in enumerate(zip(self._places.own, self._hops, strict=True)):
            base, places = int(self._bases[number]), grouped.of(number, number + 1)
            if len(places):
                taken = hops[moment.hop].take(rows[places] - rows.dtype.type(base), moment)
                names = self._names[base : self._bases[number + 1]]
                pieces.append(Piece(places, taken, names, int(self._places.first_entry[part])))
        return stitch(len(rows), pieces, np.int32, entries=self._entries)
