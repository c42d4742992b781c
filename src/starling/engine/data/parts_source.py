"""All parts of a run as one worker sees them: what is known of them without reading them, and each one read when its turn comes.

Every worker reads from every shard (the halo's features, evaluation): parts of one machine, or of a file system that all share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.comm.tags import Channel
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.core.manifest import Labels
from starling.core.npy import NpyReader
from starling.engine.data.before import EdgesBefore
from starling.engine.data.kept_edges import KeptEdges, count_kept, entries_of
from starling.engine.data.local import global_ids, padded_offsets
from starling.engine.data.part_features import PartFeatures, open_part_features
from starling.engine.data.part_source import PartSource
from starling.engine.data.places import Places
from starling.engine.features import Features
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.source import SPLITS, SourceRequest, edge_tensor, negative_weights
from starling.kernels.csr import Csr
from starling.store import shard_layout as layout
from starling.store.parts import Parts, Shard, open_parts
from starling.store.parts_manifest import PartsManifest

_CALLS = 300
"""Messages of the setup channel from this number on."""
_PICKED_BYTES = 16
"""Of an edge while those that are kept are picked out: its time, or what says so, and its place among them."""
_ROW_BYTES = 48
"""Of a local row beside features: offsets, degree, position, global id, masks and labels."""


@dataclass(frozen=True, eq=False)
class PartsSource:
    """The parts of one run; this worker's are `mine`. `splits` and `y` are those of their split nodes alone, end to end."""

    path: Path
    parts: Parts
    team: Team
    mine: range
    part_features: PartFeatures
    labels: Labels | None
    y: NDArray[Any] | None
    splits: dict[str, NDArray[np.int64]]
    split_sizes: dict[str, int]
    """Nodes of each split in all parts."""
    train_sizes: tuple[int, ...]
    """Training nodes of every part."""
    edge_tables: dict[str, Tensor]
    """Without rows, to tell their shapes."""
    relations: int
    weighted_degree: NDArray[np.float32] | None
    """By global id."""
    kept: KeptEdges | None
    """The edges that are there, where not all are."""
    calls: Calls
    directed: bool
    """Whether an edge may be there without its reverse."""
    edge_numbers: bool = False
    """Read where edges stood in the imported graph, though they have no tables."""
    edge_bytes: int = 0
    """What whoever works on a part holds of an edge, beside its lists and tables."""

    def total(self, values: NDArray[Any]) -> NDArray[Any]:
        """The sum of whole numbers over all workers; everybody asks in the same order."""
        summed: NDArray[Any] = np.sum(self.team.all_lists(self.calls.next_tag(), np.asarray(values)), axis=0)
        return summed

    def name_of(self, row: int) -> str:
        """A split node, as a message calls it."""
        return f"number {row:,} of the split nodes of parts {self.mine.start} to {self.mine.stop - 1}"

    @property
    def features(self) -> Features:
        """Of all nodes by global id, where they lie."""
        return self.part_features.everywhere

    @property
    def node_bytes(self) -> int:
        """What is held for every node of the graph, whichever part has its turn."""
        held = (self.part_features, self.weighted_degree, self.kept)
        return sum(0 if each is None else each.nbytes for each in held)

    @property
    def relation_names(self) -> tuple[str, ...]:
        """Names of edge types, none where they are only numbers."""
        return self.parts.manifest.edge_types

    def relation_counts(self) -> NDArray[np.int64]:
        """In-edges of each type that nodes of this worker's parts have."""
        counts = np.zeros(self.relations, np.int64)
        for part in self.mine:
            shard = self.parts.shard(part)
            edges = shard_array(shard, layout.IN_OFFSETS)[shard.owned]
            counts += np.bincount(edge_column(shard, "type")[:edges], minlength=self.relations)
        return counts

    def list_bytes(self, part: int) -> int:
        """What a part takes in memory without its features."""
        record, local = self.parts.manifest.shards[part], self.parts.shard(part).local
        tables = sum(4 * math.prod(table.shape[1:]) for table in self.edge_tables.values())
        picked = 0 if self.kept is None else _PICKED_BYTES
        numbers = 8 if self.edge_tables or self.edge_numbers else 0
        return local * _ROW_BYTES + record.edges * (4 + tables + picked + numbers + self.edge_bytes)

    def feature_bytes(self, part: int) -> int:
        """What a part's features take in memory, those of its halo included."""
        return self.part_features.bytes_of(self.parts.shard(part))

    def read(self, part: int, *, keep: bool = True, halo: Path | None = None) -> PartSource:
        """A part with its lists in memory; with `keep` its features too, else they are read by row where they lie.

        `halo` is the folder with the halo's features, where they were laid out (`halo_rows.py`).
        """
        shard = self.parts.shard(part)
        columns = {name: column(shard, name) for name in (*SPLITS, "y") if name in self.parts.manifest.node_tables}
        ids, there, kept = global_ids(shard), entries_of(shard, self.kept), self.kept
        looped = shard_array(shard, layout.LOOPED) if kept is None and self.parts.manifest.looped else None
        return PartSource(
            self.path,
            self._lists(shard, there),
            self.part_features.of(shard, ids, keep=keep, halo=halo),
            self.labels,
            columns["y"] if self.labels is not None else None,
            {name: np.flatnonzero(columns[name]) for name in SPLITS if name in columns},
            {name: edge_tensor(edge_column(shard, name)[there], name) for name in self.edge_tables},
            self.relations,
            self.directed,
            self.parts.ids,
            part,
            shard.owned,
            ids,
            shard_array(shard, layout.POSITION),
            shard_array(shard, layout.IN_DEGREE) if kept is None else kept.degree[ids],
            None if self.weighted_degree is None else self.weighted_degree[ids],
            looped if kept is None or kept.looped is None else kept.looped[ids],
            relation_names=self.relation_names,
        )

    def _lists(self, shard: Shard, there: NDArray[Any] | slice) -> Csr:
        offsets = shard_array(shard, layout.IN_OFFSETS)
        if not isinstance(there, slice):
            offsets = np.searchsorted(there, offsets)
        # where edges stood in the imported graph is asked for by nobody, unless they have tables or are learnt
        numbered = self.edge_tables or self.edge_numbers
        edge = shard_array(shard, layout.IN_EDGE)[there] if numbered else np.empty(0, np.int64)
        return Csr(padded_offsets(offsets, shard.local), shard_array(shard, layout.IN_NEIGHBOURS)[there], edge)


def open_parts_source(path: Path, team: Team, request: SourceRequest) -> PartsSource:
    """Look at all parts of a directory without reading them: masks, and labels of own parts' split nodes."""
    parts = _all_parts(path, team)
    places, manifest = Places(parts, team), parts.manifest
    shards = [parts.shard(part) for part in range(len(parts))]
    train = [np.flatnonzero(column(shard, "train")) for shard in shards] if "train" in manifest.node_tables else []
    sizes = {name: sum(int(column(shard, name).sum()) for shard in shards) for name in SPLITS if name in manifest.node_tables}
    names = [*request.edge_tables, *(name for name in request.optional_tables if name in manifest.edge_tables)]
    tables = {name: edge_tensor(np.asarray(shards[0].edge_table(name)[:0]), name) for name in names}  # type: ignore[index]
    y, splits = _split_labels(manifest, [shards[part] for part in places.own]) if manifest.labels is not None else (None, {})
    before = None if request.before is None else count_kept(parts, range(len(parts)), EdgesBefore(request.before))
    training = np.concatenate([np.empty(0, np.int64), *(rows + parts.offsets[part] for part, rows in enumerate(train))])
    return PartsSource(
        path,
        parts,
        team,
        places.own,
        open_part_features(parts, request, training),
        manifest.labels,
        y,
        splits,
        {name: sizes.get(name, 0) for name in SPLITS},
        tuple(len(rows) for rows in train) or (0,) * len(parts),
        tables,
        len(manifest.edge_types) or (_kinds(shards, before) if "type" in tables else 0),
        weighted_degrees(shards, before) if "weight" in tables else None,
        before,
        Calls(0, Channel.SETUP, _CALLS),
        manifest.directed or before is not None,  # of an edge and its reverse one may be later
    )


def _all_parts(path: Path, team: Team) -> Parts:
    try:
        return open_parts(path)
    except InputError as error:
        if team.size == 1:
            raise
        raise InputError(
            f"Worker {team.rank} trains or evaluates part by part and so reads every shard, not only those of its own parts: "
            f"{error} Put the parts where all workers see them, or pass --sync gradient, for which a machine needs its own alone."
        ) from error


def column(shard: Shard, name: str) -> NDArray[Any]:
    """A node table of a part's own nodes, in memory."""
    table = shard.parts.node_tables[name]
    if table.layout != "dense":
        raise InputError(f"Expected the table '{name}' as a plain array, got a sparse one. Import it again as an array.")
    return shard_array(shard, table.files[0])


def _split_labels(manifest: PartsManifest, shards: Sequence[Shard]) -> tuple[NDArray[Any], dict[str, NDArray[np.int64]]]:
    """Labels of split nodes, split by split, and the rows of each split among them; a worker without parts has none."""
    table = manifest.node_tables["y"]
    none = np.empty((0, *table.shape[1:]), table.dtype)
    labels: list[NDArray[Any]] = [none]
    splits, begin = {}, 0
    for name in (split for split in SPLITS if split in manifest.node_tables):
        found = np.concatenate([none, *(column(shard, "y")[column(shard, name).astype(bool)] for shard in shards)])
        splits[name] = np.arange(begin, begin + len(found))
        labels.append(found)
        begin += len(found)
    return np.concatenate(labels), splits


def _kinds(shards: Sequence[Shard], kept: KeptEdges | None) -> int:
    types = (edge_column(shard, "type")[entries_of(shard, kept)] for shard in shards)
    return max((int(column.max()) + 1 for column in types if len(column)), default=0)


def weighted_degrees(shards: Sequence[Shard], kept: KeptEdges | None) -> NDArray[np.float32]:
    """The sum of in-edges' weights of every node by global id, added as the whole graph's are."""
    found = []
    for shard in shards:
        offsets = shard_array(shard, layout.IN_OFFSETS)[: shard.owned + 1]
        there = entries_of(shard, kept)
        weight = edge_tensor(edge_column(shard, "weight")[there], "weight")
        if not isinstance(there, slice):
            offsets = np.searchsorted(there, offsets)
        weight = weight[: offsets[-1]]
        if not (weight >= 0).all():
            raise negative_weights(shard.path)
        lengths = torch.from_numpy(np.diff(offsets))
        found.append(torch.segment_reduce(weight, "sum", lengths=lengths, unsafe=True, initial=0.0).numpy())
    return np.concatenate(found)


def edge_column(shard: Shard, name: str) -> NDArray[Any]:
    """An edge table of a part, a row for each entry of its lists, in memory."""
    return shard_array(shard, shard.parts.edge_tables[name].files[0])


def shard_array(shard: Shard, name: str) -> NDArray[Any]:
    """A file of a shard, read rather than mapped: it is a part's turn, and its pages are to leave with it."""
    reader = NpyReader(shard.path / name)
    return reader.read(0, reader.rows)
