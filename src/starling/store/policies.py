"""Partition policies: which part has the row of a node or an edge, and which row it is, by ranges of ids (DistDGLv2 §5.4).

There is a policy for all nodes and one for every node type, one for all edges and one for every edge type:

    node_policy(manifest, "paper").place(ids)      # parts, and rows of their tables

Nodes of a part are numbered sub-part by sub-part, there type by type (`sharding/type_order.py`), so those of one type are at most
p · s ranges of global ids. An edge is called by its entry in the parts' neighbour lists, counted through, and lies with its
destination: the edges of ``author__writes__paper`` are in the lists of papers, which are ranges of entries. An edge type whose name
says nothing of node types may have edges in every list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.errors import InputError, nearest
from starling.kernels.stitch import Grouped, group_by_range
from starling.store.parts_manifest import PartRecord, PartsManifest
from starling.stream.relation_ends import named_ends


@dataclass(frozen=True, eq=False)
class Placed:
    """Where rows are: the part of each, out of `count`, and its row in the part's table."""

    parts: NDArray[np.int32]
    rows: NDArray[np.int64]
    count: int

    @cached_property
    def by_part(self) -> Grouped:
        """The places of the ids by part."""
        return group_by_range(self.parts, np.arange(self.count + 1))


@dataclass(frozen=True, eq=False)
class RangePolicy:
    """Ids first[r] … last[r] − 1 are rows row[r], row[r] + 1, … of the table of part[r]; ranges ascend, and none is empty.

    `rows_before` [p + 1] are the rows that the tables of earlier parts have. `what` are the ids that it places, in words.
    """

    what: str
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    part: NDArray[np.int32]
    row: NDArray[np.int64]
    rows_before: NDArray[np.int64]

    def place(self, ids: NDArray[Any], table: str | None = None) -> Placed:
        """The part and row of each id, by a binary search; `table` is what they are wanted for, should one be refused."""
        placed = Placed(np.empty(len(ids), np.int32), np.empty(len(ids), np.int64), len(self.rows_before) - 1)
        outside = _place(ids, self.first, self.last, self.part, self.row, placed.parts, placed.rows)
        if outside >= 0:
            raise InputError(f"Expected {self.what}{f' for {table}' if table else ''}, got {ids[outside]}.")
        return placed

    def numbers(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """The row of each id when the tables of all parts are laid end to end."""
        placed = self.place(ids)
        return self.rows_before[placed.parts] + placed.rows


def node_policy(parts: PartsManifest, of_type: str | None = None, *, alone: bool = False) -> RangePolicy:
    """The policy of all nodes, or of one node type. `alone`: rows are those of tables that have no other type's nodes."""
    offsets = np.array(parts.offsets, np.int64)
    if of_type is None:
        return _whole(f"ids in [0, {parts.nodes:,})", offsets)
    ranges = [np.array(record.type_offsets, np.int64) for record in parts.shards]
    return _typed(f"ids of nodes of the type '{of_type}'", ranges, _code(parts, of_type), parts, offsets, alone)


def edge_policy(parts: PartsManifest, of_type: str | None = None, *, alone: bool = False) -> RangePolicy:
    """The policy of all edges, or of the lists in which edges of one type are. `alone`: rows are those of tables of these lists.

    Of a type the lists are those of owned nodes; entries of copies that halos of several hops have are not placed.
    """
    entries = first_entries(parts)
    if of_type is not None and of_type not in parts.edge_types:
        raise InputError(f"There is no edge type '{of_type}' in the parts. {nearest(of_type, parts.edge_types)}")
    ends = named_ends(of_type) if of_type is not None and parts.node_types else None
    if ends is None:
        return _whole(f"ids in [0, {int(entries[-1]):,})", entries)
    if parts.kind != "edge-cut":
        raise InputError(
            f"A vertex-cut has edges of '{of_type}' away from their destinations, and no ranges of them. Partition without "
            "--keep-vertex-cut."
        )
    what = f"ids of edges of the type '{of_type}', which are in lists of '{ends[1]}'"
    ranges = [
        first + np.array(record.entry_offsets, np.int64) for first, record in zip(entries[:-1], parts.shards, strict=True)
    ]
    return _typed(what, ranges, _code(parts, ends[1]), parts, entries, alone)


def first_entries(parts: PartsManifest) -> NDArray[np.int64]:
    """Entries of neighbour lists are numbered over all parts: where each part's begin [p + 1]."""
    return np.concatenate([[0], np.cumsum([record.edges for record in parts.shards], dtype=np.int64)])


class TypedRanges:
    """The types of nodes by global id, as places among the names of types: a binary search, and no table is read."""

    def __init__(self, parts: PartsManifest) -> None:
        self._begins = np.concatenate([np.array(record.type_offsets[:-1], np.int64) for record in parts.shards])
        self._types = len(parts.node_types)

    def types_of(self, nodes: NDArray[Any]) -> NDArray[np.int64]:
        """The type of each node."""
        found: NDArray[np.int64] = (np.searchsorted(self._begins, nodes, side="right") - 1) % self._types
        return found


def rows_in_type(record: PartRecord) -> NDArray[np.int64]:
    """The row of each node that a part owns in tables of the node's own type [N]."""
    sizes = record.type_sizes
    before = np.cumsum(sizes, axis=0) - sizes  # rows that earlier sub-parts have of the same type
    begins = np.array(record.type_offsets[:-1], np.int64) - record.type_offsets[0]
    rows: NDArray[np.int64] = np.arange(record.nodes) - np.repeat(begins - before.ravel(), sizes.ravel())
    return rows


def _code(parts: PartsManifest, of_type: str) -> int:
    if of_type not in parts.node_types:
        raise InputError(f"There is no node type '{of_type}' in the parts. {nearest(of_type, parts.node_types)}")
    return parts.node_types.index(of_type)


def _whole(what: str, offsets: NDArray[np.int64]) -> RangePolicy:
    """A range a part."""
    part = np.flatnonzero(np.diff(offsets))
    first = offsets[part]
    return RangePolicy(what, first, offsets[part + 1], part.astype(np.int32), np.zeros_like(first), offsets)


def _typed(
    what: str,
    ranges: Sequence[NDArray[np.int64]],
    code: int,
    parts: PartsManifest,
    offsets: NDArray[np.int64],
    alone: bool,
) -> RangePolicy:
    """Every T-th of each part's `ranges`, given by where they begin and where the last one ends."""
    step = len(parts.node_types)
    first = np.concatenate([begins[:-1][code::step] for begins in ranges])
    last = np.concatenate([begins[1:][code::step] for begins in ranges])
    part = np.repeat(np.arange(len(ranges)), parts.sub_parts)
    there = last > first
    first, last, part = first[there], last[there], part[there]
    if not alone:
        return RangePolicy(what, first, last, part.astype(np.int32), first - offsets[part], offsets)
    before = np.concatenate([[0], np.cumsum(last - first)])
    rows_before = before[np.searchsorted(part, np.arange(len(ranges) + 1))]
    return RangePolicy(what, first, last, part.astype(np.int32), before[:-1] - rows_before[part], rows_before)


@compiled
def _place(
    ids: NDArray[Any],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    part: NDArray[np.int32],
    row: NDArray[np.int64],
    parts: NDArray[np.int32],
    rows: NDArray[np.int64],
) -> int:
    """Fill `parts` and `rows`; returns the index of the first id that is in no range, or −1."""
    for i in range(len(ids)):
        low, high = 0, len(first)  # first[low] <= id < first[high], if it is in any
        while high - low > 1:
            middle = (low + high) >> 1
            if ids[i] < first[middle]:
                high = middle
            else:
                low = middle
        if high == 0 or ids[i] < first[low] or ids[i] >= last[low]:
            return i
        parts[i] = part[low]
        rows[i] = row[low] + (ids[i] - first[low])
    return -1
