"""Global correction of averaged models (LLCG, Ramezani et al. 2022): a few steps on batches that ignore no edge.

Parts that train alone do not see what lies beyond their halo, and averaging cannot make up for it. So after each averaging the
first worker moves the mean by some steps on targets drawn from all training nodes, with all neighbours of every hop, wherever
they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from starling.comm.team import Team
from starling.engine.data.before import EdgesBefore
from starling.engine.data.compact import Compactor
from starling.engine.data.features import ReadHere
from starling.engine.data.fetch import Fetcher
from starling.engine.data.kv import KeyValueStore
from starling.engine.data.neighbours import AllParts
from starling.engine.data.parts_source import PartsSource, column
from starling.engine.data.places import Places
from starling.engine.data.sample import BlockSampler
from starling.engine.data.schedule import Scheduled
from starling.engine.fill import FilledBatch
from starling.plan.hops import HopSampler
from starling.plan.mini import Mini, hop_samplers
from starling.plan.source import EdgeColumns, NeighbourSource
from starling.plan.targets import TargetBatches


class GlobalBatches:
    """Batches over all parts with full neighbourhoods, read from the shards by one process; 16 bytes a training node are held."""

    def __init__(self, source: PartsSource, layers: int, seed: int, batch_size: int | None) -> None:
        parts, tables = source.parts, tuple(source.edge_tables)
        places = Places(parts, Team())
        train = [np.flatnonzero(column(parts.shard(part), "train")) + parts.offsets[part] for part in range(len(parts))]
        ids = np.concatenate(train)
        size = None if batch_size is None else min(batch_size, len(ids))
        self._targets = TargetBatches(np.asarray(parts.position_of_global[ids], np.int64), ids, size, seed=seed)
        before = None if source.kept is None else source.kept.edges
        assert before is None or isinstance(before, EdgesBefore), "of node tasks all other edges are kept"

        def make_hops(lists: NeighbourSource) -> Sequence[HopSampler]:  # all neighbours of every hop
            return hop_samplers(Mini.Settings.model_validate({}), lists, layers, None)

        around = AllParts(
            places,
            make_hops if before is None else before.hops(make_hops),
            EdgeColumns(timed=before is not None),
            entries=bool(tables),
        )
        self._sample = BlockSampler(around, layers, seed)
        self._fetch = Fetcher(
            KeyValueStore(places, resident=1 << 26),
            edge_tables=tables,
            features=ReadHere(source.features),
            weighted="weight" in tables,
            weights=None if before is None else partial(before.weights, places),
            degrees=None if before is None else partial(before.degrees, places),
            loops=None if before is None else partial(before.loops, places),
        )
        self._compact = Compactor(seed=seed)

    def batch(self, round_: int, step: int) -> FilledBatch:
        """One step after averaging number `round_`, from 1. Rounds count downwards in keys: no epoch shares a choice with them."""
        chosen = self._targets.batch(-round_, step % self._targets.steps)
        return self._compact(self._fetch(self._sample(Scheduled(0, -round_, step, chosen, len(chosen)))))
