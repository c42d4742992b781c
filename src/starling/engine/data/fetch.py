"""The third stage: what a step's nodes and edges carry, pulled out of the key-value store.

The stage sends requests and answers, and reads what lies on this host; the next stage waits for what comes from others. So the
links between hosts are never idle for want of a question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.tags import Channel
from starling.engine.data.columns import Columns, OfPart
from starling.engine.data.embeddings import EMBEDDING, PulledRows, SomeRows
from starling.engine.data.features import BegunFeatures, OneTable, PulledFeatures, Scaled
from starling.engine.data.kv import KeyValueStore, Pending
from starling.engine.data.places import Places
from starling.engine.data.sample import Sampled
from starling.engine.embeddings.table import EmbeddingTable
from starling.engine.hybrid.messages.calls import Calls
from starling.nn.inputs import LearntRows

_COLUMNS = "columns"
"""The table of what no file has."""


@dataclass(frozen=True, eq=False)
class FetchedRows:
    """A sampled step with the rows it reads: of its inputs, of its targets, of each block's edges."""

    sampled: Sampled
    x: NDArray[np.float32]
    y: NDArray[Any]
    position: NDArray[np.int64]
    degree: NDArray[np.int64]
    weighted_degree: NDArray[np.float32] | None
    looped: NDArray[np.bool_] | None
    """Which inputs have self-loops; None where no node of the graph has one."""
    edge_tables: tuple[dict[str, NDArray[Any]], ...]
    learnt: LearntRows | None = None
    sent: Counter[int] = field(default_factory=Counter)
    """Bytes that sampling and fetching have sent to each worker."""

    @property
    def nbytes(self) -> int:
        """What it holds."""
        arrays = [self.x, self.y, self.position, self.degree]
        arrays += [table for of_block in self.edge_tables for table in of_block.values()]
        arrays += [array for array in (self.weighted_degree, self.looped) if array is not None]
        return self.sampled.nbytes + sum(array.nbytes for array in arrays) + (0 if self.learnt is None else self.learnt.nbytes)

    def arrived(self) -> FetchedRows:
        """Itself: a stage of one's own may fetch rows and wait for them at once."""
        return self


@dataclass(frozen=True, eq=False)
class RowsUnderWay:
    """A sampled step whose rows are asked for, and others' questions answered: meanwhile the next step may be fetched."""

    sampled: Sampled
    features: BegunFeatures
    y: Pending | None
    columns: Pending
    edge_tables: tuple[dict[str, Pending], ...]
    learnt: LearntRows | None
    sent: Counter[int]

    @property
    def nbytes(self) -> int:
        """What it will hold."""
        tables = [table for of_block in self.edge_tables for table in of_block.values()]
        pulls = [*self.features.pulls, self.columns, *tables, *([] if self.y is None else [self.y])]
        return self.sampled.nbytes + sum(pull.nbytes for pull in pulls) + (0 if self.learnt is None else self.learnt.nbytes)

    def arrived(self) -> FetchedRows:
        """The step when all its rows have come."""
        targets, columns = len(self.sampled.scheduled.targets), self.columns.rows()

        def column(name: str) -> Any:  # also of a single row, which NumPy calls contiguous whatever its strides: torch does not
            return columns[name].copy() if name in (columns.dtype.names or ()) else None

        return FetchedRows(
            self.sampled,
            self.features.rows(),
            np.empty((targets, 0), np.float32) if self.y is None else self.y.rows(),
            column("position"),
            column("degree"),
            column("weighted_degree"),
            column("looped"),
            tuple({name: table.rows() for name, table in of_block.items()} for of_block in self.edge_tables),
            self.learnt,
            self.sent,
        )


FetchedStep = RowsUnderWay | FetchedRows
"""What the stage gives: the next one takes the rows when they have arrived."""


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
        loops: OfPart | None = None,
        calls: Callable[[int], Calls] = lambda number: Calls(number, Channel.FETCH),
        learnt_calls: Callable[[int], Calls] = lambda number: Calls(number, Channel.EMBEDDINGS),
        counted: bool = True,
    ) -> None:
        self._calls, self._learnt_calls, self._counted = calls, learnt_calls, counted
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
        if places.parts.manifest.looped:
            columns["looped"] = (loops or (lambda part: _own(places, part, "looped")), np.bool_)
        store.add(_COLUMNS, Columns(columns))

    def __call__(self, sampled: Sampled) -> RowsUnderWay:
        """Ask for everything, then answer what others ask: no answer waits for a question of theirs, or for a row of ours."""
        store, calls = self._store, self._calls(sampled.scheduled.number)
        with store.places.team.ledger.apart() as sent:
            inputs = sampled.inputs
            once = all(block.degree is None for block in sampled.blocks)  # else a node may be seen at several times
            features = self._features.begin(inputs, calls, counted=self._counted, distinct=once)
            y = store.begin_pull("y", sampled.scheduled.targets, calls) if self._has_labels else None
            columns = store.begin_pull(_COLUMNS, inputs, calls, distinct=once)
            tables = tuple(
                {name: store.begin_pull(name, block.edge, calls, kind="edge") for name in self._edge_tables}
                for block in sampled.blocks
            )
            learnt = None
            if self._embeddings is not None:
                nodes = inputs if features.bare is None else inputs[features.bare]
                learnt = PulledRows(store, self._embeddings, nodes, self._learnt_calls(sampled.scheduled.number), features.bare)
            for pull in (*features.pulls, *([] if y is None else [y]), columns, *(t for some in tables for t in some.values())):
                pull.serve()
        return RowsUnderWay(sampled, features, y, columns, tables, learnt, sampled.sent + sent)


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
