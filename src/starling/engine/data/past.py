"""The second stage where targets look only into their past (plan/timed.py): a node stands in a step once a time it is seen at.

Times lie with the edges, so whoever samples on a shard leaves out younger ones by itself; a request says until when for each row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from starling.comm.ledger import Ledger
from starling.comm.tags import Channel
from starling.core.times import latest
from starling.engine.data.kv import KeyValueStore
from starling.engine.data.lists import AllLists, Limits, Lists
from starling.engine.data.places import Places
from starling.engine.data.sample import Sampled
from starling.engine.data.schedule import Scheduled
from starling.engine.hybrid.messages.calls import Calls
from starling.kernels.sampling import Taken
from starling.plan.hops import Moment
from starling.plan.source import EdgeColumns, NeighbourSource
from starling.plan.timed import PastLists, check_times, past_blocks


def past_lists(places: Places, make: Callable[[NeighbourSource], Lists], relations: int, *, entries: bool) -> AllLists[Lists]:
    """The lists of all parts with their times; `relations` where these have fan-outs of their own."""
    manifest = places.parts.manifest
    check_times(edges="time" in manifest.edge_tables, nodes="time" in manifest.node_tables)
    return AllLists(places, make, EdgeColumns(relations=relations, timed=True), entries=entries)


class PastSampler(Generic[Lists]):
    """Samples a worker's share of steps; every worker samples the same steps in the same order.

    Nodes' times are the table `time` of the store. `before` is a time after which no edge is seen by anybody. `choose` says which
    of the lists that were made for a part this sampler takes from.
    """

    def __init__(
        self,
        store: KeyValueStore,
        lists: AllLists[Lists],
        choose: Callable[[Lists], PastLists],
        hops: int,
        seed: int,
        *,
        before: float | None = None,
        ledger: Ledger | None = None,
        calls: Callable[[int], Calls] = lambda number: Calls(number, Channel.SAMPLE),
    ) -> None:
        self._store, self._lists, self._choose, self._hops, self._seed = store, lists, choose, hops, seed
        self._before, self._ledger, self._calls = before, ledger or Ledger(1), calls
        self._time_type = np.dtype(store.places.parts.manifest.edge_tables["time"].dtype)

    def __call__(self, scheduled: Scheduled) -> Sampled:
        """All hops of a step, and how many edges of its past each row has."""
        calls, places = self._calls(scheduled.number), self._store.places

        def take(rows: NDArray[Any], limits: NDArray[Any], moment: Moment) -> Taken:
            def of_part(lists: Lists, local: NDArray[Any], until: Limits) -> Taken:
                assert until is not None
                return self._choose(lists).take(local, until, moment)

            return self._lists.edges(rows, calls, of_part, limits)

        def degrees(rows: NDArray[Any], limits: NDArray[Any]) -> NDArray[np.int64]:
            def of_part(lists: Lists, local: NDArray[Any], until: Limits) -> NDArray[np.int64]:
                assert until is not None
                return self._choose(lists).degrees(local, until)

            return self._lists.numbers(rows, calls, of_part, limits)

        with self._ledger.apart() as sent:
            times = self._store.pull("time", scheduled.targets, calls)
            if self._before is not None:
                last = latest(self._before, self._time_type)
                times = np.minimum(times if isinstance(last, int) else times.astype(np.float64), last)
            targets = np.ascontiguousarray(scheduled.targets, places.id_type)
            moments = [Moment(self._seed, scheduled.epoch, scheduled.step, hop) for hop in range(self._hops)]
            inputs, blocks = past_blocks(targets, times, places.parts.manifest.nodes, moments, take, degrees)
        return Sampled(scheduled, inputs, blocks, scheduled.sent + sent)
