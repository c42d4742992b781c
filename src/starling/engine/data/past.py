"""The second stage where targets look only into their past (plan/timed.py): a node stands in a step once a time it is seen at.

Times lie with the edges, so whoever samples on a shard leaves out younger ones by itself; a request says until when for each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.ledger import Ledger
from starling.comm.tags import Channel
from starling.engine.data.kv import KeyValueStore
from starling.engine.data.lists import AllLists, Limits
from starling.engine.data.sample import Sampled
from starling.engine.data.schedule import Scheduled
from starling.engine.hybrid.exchange import Calls
from starling.kernels.sampling import Taken
from starling.plan.hops import Moment
from starling.plan.source import EdgeColumns, NeighbourSource
from starling.plan.timed import PastLists, check_times, past_blocks


class PastSampler:
    """Samples a worker's share of steps; every worker samples the same steps in the same order.

    Nodes' times are the table `time` of the store. `before` is a time after which no edge is seen by anybody.
    """

    def __init__(
        self,
        store: KeyValueStore,
        make_lists: Callable[[NeighbourSource], PastLists],
        hops: int,
        seed: int,
        *,
        relations: int = 0,
        before: float | None = None,
        entries: bool = True,
        ledger: Ledger | None = None,
        calls: Callable[[int], Calls] = lambda number: Calls(number, Channel.SAMPLE),
    ) -> None:
        places, manifest = store.places, store.places.parts.manifest
        check_times(edges="time" in manifest.edge_tables, nodes="time" in manifest.node_tables)
        self._store, self._hops, self._seed, self._before, self._calls = store, hops, seed, before, calls
        self._lists = AllLists(places, make_lists, EdgeColumns(relations=relations, timed=True), entries=entries)
        self._ledger = ledger or Ledger(1)

    def __call__(self, scheduled: Scheduled) -> Sampled:
        """All hops of a step, and how many edges of its past each row has."""
        calls, places = self._calls(scheduled.number), self._store.places

        def take(rows: NDArray[Any], limits: NDArray[Any], moment: Moment) -> Taken:
            def of_part(lists: PastLists, local: NDArray[Any], until: Limits) -> Taken:
                assert until is not None
                return lists.take(local, until, moment)

            return self._lists.edges(rows, calls, of_part, limits)

        def degrees(rows: NDArray[Any], limits: NDArray[Any]) -> NDArray[np.int64]:
            def of_part(lists: PastLists, local: NDArray[Any], until: Limits) -> NDArray[np.int64]:
                assert until is not None
                return lists.degrees(local, until)

            return self._lists.numbers(rows, calls, of_part, limits)

        with self._ledger.apart() as sent:
            times = self._store.pull("time", scheduled.targets, calls)
            if self._before is not None:
                last = math.floor(self._before) if times.dtype.kind in "iu" else self._before  # whole numbers stay exact
                times = np.minimum(times, last)
            targets = np.ascontiguousarray(scheduled.targets, places.id_type)
            moments = [Moment(self._seed, scheduled.epoch, scheduled.step, hop) for hop in range(self._hops)]
            inputs, blocks = past_blocks(targets, times, places.parts.manifest.nodes, moments, take, degrees)
        return Sampled(scheduled, inputs, blocks, scheduled.sent + sent)
