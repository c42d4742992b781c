"""The third stage: what a step's nodes and edges carry, pulled out of the key-value store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.tags import Channel
from starling.engine.data.columns import NodeColumns, OfPart
from starling.engine.data.embeddings import EMBEDDING, PulledRows, SomeRows
from starling.engine.data.features import OneTable, PulledFeatures, Scaled
from starling.engine.data.kv import KeyValueStore
from starling.engine.data.places import Places
from starling.engine.data.sample import Sampled
from starling.engine.embeddings.table import EmbeddingTable
from starling.engine.hybrid.exchange import Calls
from starling.nn.inputs import LearntRows


@dataclass(frozen=True, eq=False)
class FetchedRows:
    """A sampled step with the rows it reads: of its inputs, of its targets, of each block's edges."""

    sampled: Sampled
    x: NDArray[np.float32]
    y: NDArray[Any]
    position: NDArray[np.int64]
    degree: NDArray[np.int64]
    weighted_degree: NDArray[np.float32] | None
    edge_tables: tuple[dict[str, NDArray[Any]], ...]
    learnt: LearntRows | None = None
    sent: Counter[int] = field(default_factory=Counter)
    """Bytes that sampling and fetching have sent to each worker."""

    @property
    def nbytes(self) -> int:
        """What it holds."""
        tables = [table for of_block in self.edge_tables for table in of_block.values()]
        return (
            self.sampled.nbytes + self.x.nbytes + sum(array.nbytes for array in (self.y, self.position, self.degree, *tables))
        )


class Fetcher:
    """Fetches rows for the steps of one worker; every worker does so in the same order."""

    def __init__(
        self,
        store: KeyValueStore,
        *,
        edge_tables: Sequence[str] = (),
        scaled: Scaled | None = None,
        features: PulledFeatures | None = None,
        weighted: bool = False,
        weights: OfPart | None = None,
        embeddings: EmbeddingTable | None = None,
        row_of: NDArray[np.int64] | None = None,
        degrees: OfPart | None = None,
    ) -> None:
        self._store, self._edge_tables, self._embeddings = store, tuple(edge_tables), embeddings
        self._features = features or OneTable(store, scaled)
        places = store.places
        self._has_labels = "y" in places.parts.manifest.node_tables
        if embeddings is not None:
            store.keep(EMBEDDING, embeddings if row_of is None else SomeRows(embeddings, row_of))
        columns: dict[str, tuple[OfPart, Any]] = {
            "position": (lambda part: _own(places, part, "position"), np.int64),
            "degree": (degrees or (lambda part: _own(places, part, "in_degree")), np.int64),
        }
        if weighted:
            columns["weighted_degree"] = (lambda part: _weight_sums(places, part, weights), np.float32)
        self._columns = NodeColumns(places, columns)

    def __call__(self, sampled: Sampled) -> FetchedRows:
        """Pull everything."""
        with self._store.places.team.ledger.apart() as sent:
            fetched = self._fetch(sampled)
        return replace(fetched, sent=sampled.sent + sent)

    def _fetch(self, sampled: Sampled) -> FetchedRows:
        """Requests for the largest rows are sent first and read last."""
        calls = Calls(sampled.scheduled.number, Channel.FETCH)
        inputs = sampled.inputs
        features = self._features.begin(inputs, calls)
        targets = sampled.scheduled.targets
        y = self._store.pull("y", targets, calls) if self._has_labels else np.empty((len(targets), 0), np.float32)
        columns = self._columns.values(inputs, calls)
        tables = tuple(
            {name: self._store.pull(name, block.edge, calls, kind="edge") for name in self._edge_tables}
            for block in sampled.blocks
        )
        learnt = None
        if self._embeddings is not None:
            nodes = inputs if features.bare is None else inputs[features.bare]
            learnt = PulledRows(self._store, self._embeddings, nodes, sampled.scheduled.number, features.bare)
        x = features.rows()
        weighted = columns.get("weighted_degree")
        return FetchedRows(sampled, x, y, columns["position"], columns["degree"], weighted, tables, learnt)


def _own(places: Places, part: int, name: str) -> NDArray[Any]:
    shard = places.parts.shard(part)
    values: NDArray[Any] = getattr(shard, name)[: shard.owned]
    return values


def _weight_sums(places: Places, part: int, weights: OfPart | None) -> NDArray[np.float32]:
    """The sum of in-edges' weights of a part's own nodes; `weights` gives those of a part's edges, if not as they are stored."""
    shard = places.parts.shard(part)
    offsets = np.asarray(shard.incoming.offsets[: shard.owned + 1])
    weight = np.asarray(shard.edge_table("weight") if weights is None else weights(part), np.float32)[: offsets[-1]]
    sums = np.zeros(shard.owned, np.float32)
    filled = np.flatnonzero(np.diff(offsets))
    if len(filled):
        sums[filled] = np.add.reduceat(weight, offsets[filled])
    return sums
