"""A partitioned graph on disk: open it, look up owners and ids, and take one part's shard without loading the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError, nearest
from starling.core.manifest import Table
from starling.core.npy import map_array
from starling.kernels.csr import Csr
from starling.store import shard_layout as layout
from starling.store.parts_manifest import PartRecord, PartsManifest
from starling.store.sharding.node_order import GLOBAL_OF_POSITION, POSITION_OF_GLOBAL

if TYPE_CHECKING:
    from starling.store.graph import CsrTable
    from starling.stream.id_index import IdIndex
    from starling.stream.raw import Ids


@dataclass(frozen=True)
class Parts:
    """An opened parts directory. Part q owns global ids offsets[q] … offsets[q + 1] − 1."""

    path: Path
    manifest: PartsManifest

    def __len__(self) -> int:
        return self.manifest.parts

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """First global id of each part, and the number of nodes [p + 1]."""
        return np.array(self.manifest.offsets, np.int64)

    @cached_property
    def global_of_position(self) -> NDArray[Any]:
        """Global id of the node at each position of the imported graph [V]."""
        return map_array(self.path / GLOBAL_OF_POSITION)

    @cached_property
    def position_of_global(self) -> NDArray[Any]:
        """Position in the imported graph of each global id [V]."""
        return map_array(self.path / POSITION_OF_GLOBAL)

    @cached_property
    def ids(self) -> IdIndex:
        """The user's ids: positions from ids, ids from positions."""
        from starling.stream.id_index import IdIndex

        return IdIndex(self.path, self.manifest.ids, self.manifest.nodes)

    def owner_of(self, nodes: NDArray[Any]) -> NDArray[np.int64]:
        """The part that owns each global id."""
        outside = (nodes < 0) | (nodes >= self.manifest.nodes)
        if outside.any():
            raise InputError(f"Expected global ids in [0, {self.manifest.nodes:,}), got {nodes[outside][0]}.")
        return np.searchsorted(self.offsets, nodes, side="right") - 1

    def to_user(self, nodes: NDArray[Any]) -> Ids:
        """The user's ids of global ids: an integer array, or a pyarrow array of strings."""
        return users_at(self.path, self.manifest.ids, self.position_of_global[nodes])

    def from_user(self, ids: Ids) -> NDArray[Any]:
        """The global ids of the user's ids."""
        positions = self.ids.positions(ids)
        unknown = np.flatnonzero(positions < 0)
        if len(unknown):
            raise InputError(f"{self.path} has no node with the id '{ids[int(unknown[0])]}'.")
        found: NDArray[Any] = self.global_of_position[positions]
        return found

    def shard(self, part: int) -> Shard:
        """One part's shard; its arrays are memory-mapped when asked for."""
        if not 0 <= part < len(self):
            raise InputError(f"Expected a part from 0 to {len(self) - 1}, got {part}.")
        return Shard(self.path / layout.shard_name(part), part, self.manifest)


@dataclass(frozen=True)
class Shard:
    """What one part holds.

    Local rows are the N owned nodes (global id = `first_global` + row), then the halo of H nodes: hop by hop, inside a hop by
    owner, in ascending global id. In a vertex-cut owned nodes are masters and the halo are mirrors.
    """

    path: Path
    part: int
    parts: PartsManifest

    @property
    def record(self) -> PartRecord:
        """The part in numbers."""
        return self.parts.shards[self.part]

    @property
    def first_global(self) -> int:
        """Global id of local row 0."""
        return self.parts.offsets[self.part]

    @property
    def owned(self) -> int:
        """N, how many nodes the part owns."""
        return self.record.nodes

    @property
    def local(self) -> int:
        """N + H, how many nodes the part knows."""
        return self.record.nodes + sum(self.record.halo)

    @cached_property
    def incoming(self) -> Csr:
        """In-edges: the neighbours of a row are local rows, `edge` is the position of the edge in the imported graph.

        Rows are the owned nodes; with more than one halo hop also the halo nodes nearer than the last hop; in a vertex-cut all
        local nodes, each with those of its in-edges that are in this part. Lists keep the imported order of edges.
        """
        return Csr(self._array(layout.IN_OFFSETS), self._array(layout.IN_NEIGHBOURS), self._array(layout.IN_EDGE))

    @cached_property
    def outgoing(self) -> Csr:
        """The transpose: for each of the N + H local nodes the rows it feeds; `edge` is the entry in `incoming`."""
        return Csr(self._array(layout.OUT_OFFSETS), self._array(layout.OUT_NEIGHBOURS), self._array(layout.OUT_ENTRY))

    @cached_property
    def halo_global(self) -> NDArray[Any]:
        """Global ids of the halo [H], in local order."""
        return self._array(layout.HALO_GLOBAL)

    @cached_property
    def halo_offsets(self) -> NDArray[np.int64]:
        """Where in the halo each owner's nodes begin [hops, p + 1]: hop h has those of part q at [h, q] … [h, q + 1] − 1."""
        return self._array(layout.HALO_OFFSETS)

    @cached_property
    def send_rows(self) -> NDArray[Any]:
        """Own rows that other parts hold as halo, in the order in which they hold them."""
        return self._array(layout.SEND_ROWS)

    @cached_property
    def send_offsets(self) -> NDArray[np.int64]:
        """Where in `send_rows` those for each other part begin [hops, p + 1], cut like `halo_offsets`."""
        return self._array(layout.SEND_OFFSETS)

    @cached_property
    def position(self) -> NDArray[Any]:
        """Position in the imported graph of every local node [N + H]; random choices are keyed by it."""
        return self._array(layout.POSITION)

    @cached_property
    def in_degree(self) -> NDArray[Any]:
        """In-degree in the whole graph of every local node [N + H]."""
        return self._array(layout.IN_DEGREE)

    @cached_property
    def out_degree(self) -> NDArray[Any]:
        """Out-degree in the whole graph of every local node [N + H]."""
        return self._array(layout.OUT_DEGREE)

    @cached_property
    def looped(self) -> NDArray[np.bool_] | None:
        """Whether every local node has a self-loop [N + H]; None where no node of the graph has one."""
        return self._array(layout.LOOPED) if self.parts.looped else None

    @property
    def sub_part_bounds(self) -> NDArray[np.int64]:
        """Local rows [s + 1] at which the sub-parts begin and end."""
        return np.array(self.record.sub_offsets, np.int64) - self.first_global

    def node_table(self, name: str) -> NDArray[Any] | CsrTable:
        """The owned nodes' rows of a node table (of one type: a row for each owned node of that type)."""
        rows = self.owned
        of_type = self.parts.node_tables[name].of_type if name in self.parts.node_tables else None
        if of_type is not None:
            rows = int(self.record.type_sizes[:, self.parts.node_types.index(of_type)].sum())
        return self._table(name, self.parts.node_tables, "node", rows)

    def edge_table(self, name: str) -> NDArray[Any] | CsrTable:
        """An edge table, a row for each entry of `incoming`."""
        return self._table(name, self.parts.edge_tables, "edge", self.record.edges)

    def _array(self, name: str) -> NDArray[Any]:
        return map_array(self.path / name)

    def _table(self, name: str, tables: dict[str, Table], kind: str, rows: int) -> NDArray[Any] | CsrTable:
        from starling.store.graph import open_table

        if name not in tables:
            raise InputError(f"{self.path.parent} has no {kind} table '{name}'. {nearest(name, tables)}")
        table = tables[name]
        return open_table(table.model_copy(update={"shape": (rows, *table.shape[1:])}), self.path)


def users_at(directory: Path, kind: str, positions: NDArray[Any]) -> Ids:
    """The user's ids of positions in any order, from the id files of a directory."""
    from starling.stream.id_index import BYTES, IDS, OFFSETS
    from starling.stream.ids.texts import Texts

    if kind == "position":
        return positions.astype(np.int64)
    if kind == "integer":
        return np.array(map_array(directory / IDS)[positions])
    starts = map_array(directory / OFFSETS)[positions]
    lengths = map_array(directory / OFFSETS)[positions + 1] - starts
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Texts(offsets, np.array(map_array(directory / BYTES)[places])).to_arrow()


def open_parts(path: Path | str, only: Iterable[int] | None = None) -> Parts:
    """Open a parts directory; refuses one with missing or truncated files.

    `only` are the parts that will be read: a machine of several need have no other shard, and none of the files beside them.
    """
    path = Path(path)
    manifest = PartsManifest.read(path)
    if only is None:
        manifest.check_sizes(path)
    else:
        manifest.check_shards(path, only)
    return Parts(path, manifest)
