"""What ``manifest.json`` of a parts directory says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from starling.core.artifact import MANIFEST
from starling.core.assignment import CutKind, Making, Note
from starling.core.errors import InputError
from starling.core.manifest import Count, Labels, Manifest, Record, Table, file_entry
from starling.store.shard_layout import HALO_OFFSETS, shard_name


class PartRecord(Record):
    """One part in numbers.

    `halo` counts the nodes of each hop, `rows` the neighbour lists, `edges` their entries, `dropped` the edges from other parts
    that zero hops leave out. `sub_offsets` are the global ids [s + 1] at which its sub-parts begin and end. Where nodes have T
    types, `type_offsets` are those [s · T + 1] at which its ranges of one type do, by sub-part, then type, and `entry_offsets` the
    entries of its neighbour lists there.
    """

    nodes: Count
    halo: tuple[Count, ...]
    rows: Count
    edges: Count
    dropped: Count = 0
    sub_offsets: tuple[Count, ...]
    type_offsets: tuple[Count, ...] = ()
    entry_offsets: tuple[Count, ...] = ()

    @property
    def type_sizes(self) -> NDArray[np.int64]:
        """How many nodes each typed range has [s, T]."""
        return np.diff(self.type_offsets).reshape(len(self.sub_offsets) - 1, -1)


class PartsManifest(Manifest):
    """A partitioned graph on disk (docs/formats.md).

    Tables name their files inside a shard directory; their shape is that of the whole graph's table. `input` is the SHA-256 of
    the edges that were partitioned. `looped`: some nodes have self-loops, which the shards tell.
    """

    format: Literal["starling-parts"] = "starling-parts"
    version: int = 1
    kind: CutKind
    parts: Count
    sub_parts: Count
    halo_hops: Count
    nodes: Count
    edges: Count
    directed: bool
    looped: bool
    offsets: tuple[Count, ...]
    shards: tuple[PartRecord, ...]
    method: str
    seed: int
    settings: dict[str, Note] = {}
    notes: dict[str, Note] = {}
    making: Making | None = None
    passes: Count = 0
    quality: dict[str, Note] = {}
    input: str
    ids: Literal["position", "integer", "string"] = "position"
    node_types: tuple[str, ...] = ()
    edge_types: tuple[str, ...] = ()
    node_tables: dict[str, Table] = {}
    edge_tables: dict[str, Table] = {}
    labels: Labels | None = None
    splits: dict[str, Count] = {}

    @classmethod
    def read(cls, directory: Path) -> Self:
        """The checked manifest of a directory."""
        manifest = super().read(directory)
        ranges = manifest.sub_parts * len(manifest.node_types)
        if ranges and any(len(record.type_offsets) != ranges + 1 for record in manifest.shards):
            raise InputError(
                f"{directory} was made before nodes of a part were ordered by type, and does not say which ranges of them are of "
                "which type. Partition again."
            )
        return manifest

    def check_shards(self, directory: Path, parts: Iterable[int]) -> None:
        """Refuse a directory in which these parts' shards are missing, truncated or another graph's; others' need not be there."""
        wanted = list(map(shard_name, parts))
        for folder in wanted:
            if not (directory / folder).is_dir():
                raise InputError(f"The shard {directory / folder} is missing. Copy it here, or partition again.")
            # A few numbers that hardly two graphs, or two ways to cut one, have in common.
            mark = f"{folder}/{HALO_OFFSETS}"
            if (directory / mark).is_file() and file_entry(directory / mark) != self.files.get(mark):
                raise InputError(
                    f"The shard {directory / folder} is not the one that {directory / MANIFEST} describes, but of another graph or "
                    "cut differently. Copy the right one here, or partition again."
                )
        among = set(wanted)  # in one look at all names, of which there are a dozen a part
        files = {name: entry for name, entry in self.files.items() if name.partition("/")[0] in among}
        self.model_copy(update={"files": files}).check_sizes(directory)
