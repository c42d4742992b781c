"""Parts against brute force: what a shard must hold, worked out from the whole graph's edges and tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from starling.core.assignment import Assignment
from starling.store.graph import CsrTable
from starling.store.parts import Parts, Shard, open_parts
from starling.store.policies import TypedRanges, rows_in_type
from starling.store.sharding.budget import Budget
from starling.store.shards import build_parts
from tests.support.graphs import write_assignment, write_graph

MEMORY = 1 << 30
TYPES = ("author", "paper")
EDGE_TYPES = (*(f"{source}__to__{destination}" for source in TYPES for destination in TYPES), "likes")
"""The last one says nothing of node types, and has no edges."""


@dataclass(frozen=True)
class Case:
    """A graph, an assignment and how to cut it."""

    nodes: int
    pairs: np.ndarray
    parts: int
    owner: np.ndarray
    edge_part: np.ndarray | None = None
    locality: np.ndarray | None = None
    halo_hops: int = 1
    sub_parts: int = 1
    types: np.ndarray | None = None

    @property
    def kind(self) -> Any:
        return "edge-cut" if self.edge_part is None else "vertex-cut"

    def tables(self) -> dict[str, Any]:
        at = np.arange(self.nodes)
        tables: dict[str, Any] = {
            "x": (at[:, None] * 10 + np.arange(3)).astype(np.float32),
            "y": at * 7,
            "train": at % 3 == 0,
            "words": self.sparse(at),
        }
        if self.types is not None:
            tables["type"] = self.types
            for code, name in enumerate(TYPES):
                tables[f"x@{name}"] = np.flatnonzero(self.types == code)[:, None] * 100.0
                tables[f"words@{name}"] = self.sparse(np.flatnonzero(self.types == code))
        return tables

    def sparse(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Row i has i % 4 values."""
        lengths = at % 4
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        columns = (np.arange(offsets[-1]) % 5).astype(np.int32)
        return offsets, columns, np.arange(offsets[-1], dtype=np.float32) + 0.5, 5

    def edge_tables(self) -> dict[str, Any]:
        at = np.arange(len(self.pairs))
        tables = {"weight": at.astype(np.float32) / 4, "attr": np.stack([at, -at], 1).astype(np.int16)}
        if self.types is not None:
            ends = self.types[self.pairs].astype(np.uint8)
            tables["type"] = ends[:, 0] * len(TYPES) + ends[:, 1]
        return tables


def build(case: Case, directory: Path, *, working: int | None = None, threads: int | None = None) -> Parts:
    """Build the parts of a case; `working` limits what sorting may hold, in bytes."""
    graph = write_graph(
        directory / "graph",
        case.pairs,
        case.nodes,
        node_tables=case.tables(),
        edge_tables=case.edge_tables(),
        node_types=TYPES if case.types is not None else (),
        edge_types=EDGE_TYPES if case.types is not None else (),
    )
    assignment = Assignment(case.kind, case.parts, case.owner.astype(np.int32), case.edge_part, case.locality)
    assigned = write_assignment(directory / "assignment", assignment, len(case.pairs))
    staging = directory / "parts"
    staging.mkdir()
    with patch.object(Budget, "left", lambda budget: working or MEMORY):
        built = build_parts(
            graph,
            assigned,
            staging,
            halo_hops=case.halo_hops,
            sub_parts=case.sub_parts,
            memory=MEMORY,
            threads=threads,
            quality={"edge_cut": 0.5},
        )
    parts = open_parts(staging)
    assert parts.manifest == built
    assert not (staging / "scratch").exists()
    return parts


def row_nodes(parts: Parts, shard: Shard) -> np.ndarray:
    """Global ids of the local rows."""
    return np.concatenate([np.arange(shard.owned) + shard.first_global, shard.halo_global])


def expected_halo(case: Case, parts: Parts, part: int) -> list[np.ndarray]:
    """Hop by hop the global ids a breadth-first search against the edges finds."""
    pairs = np.asarray(parts.global_of_position)[case.pairs]
    low, high = parts.offsets[part], parts.offsets[part + 1]
    if case.edge_part is not None:
        ends = np.unique(pairs[case.edge_part == part])
        return [ends[(ends < low) | (ends >= high)]]
    known = set(range(int(low), int(high)))
    rows, hops = set(known), []
    for _ in range(case.halo_hops):
        found = {int(s) for s, d in pairs if int(d) in rows} - known
        hops.append(np.array(sorted(found), np.int64))
        known |= found
        rows = found
    return hops


def check_node_map(case: Case, parts: Parts) -> None:
    number, position = np.asarray(parts.global_of_position), np.asarray(parts.position_of_global)
    assert np.array_equal(position[number], np.arange(case.nodes))
    assert np.array_equal(parts.owner_of(number), case.owner)
    assert np.array_equal(np.load(parts.path / "offsets.npy"), parts.offsets)
    if case.locality is not None:
        assert np.array_equal(position, expected_order(case, parts))


def expected_order(case: Case, parts: Parts) -> np.ndarray:
    """Positions by part, sub-part, type, inner before boundary, locality. Sub-parts are found by locality alone."""
    keys = [np.arange(case.nodes), case.locality, case.owner]
    order = np.lexsort(keys)
    sub_part = np.empty(case.nodes, int)
    bounds = [bound for record in parts.manifest.shards for bound in record.sub_offsets[:-1]]
    sub_part[order] = np.searchsorted(bounds, np.arange(case.nodes), side="right")
    types = np.zeros(case.nodes) if case.types is None else case.types
    return np.lexsort([*keys[:2], expected_boundary(case), types, sub_part, case.owner])


def expected_boundary(case: Case) -> np.ndarray:
    """0 for inner nodes, 1 for those that another part reads, 2 for both, 3 for those that read one; in a vertex-cut 0 for all."""
    crossing = case.pairs[case.owner[case.pairs[:, 0]] != case.owner[case.pairs[:, 1]]]
    if case.edge_part is not None:
        crossing = crossing[:0]
    read, reads = (np.isin(np.arange(case.nodes), crossing[:, side]) for side in (0, 1))
    return np.select([read & reads, read, reads], [2, 1, 3])


def check_shard(case: Case, parts: Parts, part: int) -> None:
    shard = parts.shard(part)
    nodes = row_nodes(parts, shard)
    halo = expected_halo(case, parts, part)
    assert np.array_equal(shard.halo_global, np.concatenate([np.zeros(0, np.int64), *halo]))
    assert shard.record.halo == tuple(len(hop) for hop in halo)
    for hop, found in enumerate(halo):
        for other in range(case.parts):
            cut = slice(*shard.halo_offsets[hop, other : other + 2])
            assert np.array_equal(shard.halo_global[cut], found[parts.owner_of(found) == other])
    position = np.asarray(parts.position_of_global)[nodes]
    assert np.array_equal(shard.position, position)
    assert np.array_equal(shard.in_degree, np.bincount(case.pairs[:, 1], minlength=case.nodes)[position])
    assert np.array_equal(shard.out_degree, np.bincount(case.pairs[:, 0], minlength=case.nodes)[position])
    check_in_edges(case, parts, shard, position, len(nodes) if case.edge_part is not None else None)
    check_transpose(shard)
    check_sub_parts(case, shard)
    check_typed_ranges(case, shard)
    check_tables(case, shard, position)


def check_in_edges(case: Case, parts: Parts, shard: Shard, position: np.ndarray, rows: int | None) -> None:
    """Each row lists its in-edges in imported order."""
    csr = shard.incoming
    if rows is None:
        rows = shard.owned + sum(shard.record.halo[: max(case.halo_hops - 1, 0)])
    assert csr.rows == rows == shard.record.rows
    dropped = 0
    for row in range(rows):
        entries = slice(*csr.offsets[row : row + 2])
        mine = np.flatnonzero(case.pairs[:, 1] == position[row])
        if case.edge_part is not None:
            mine = mine[case.edge_part[mine] == shard.part]
        if case.halo_hops == 0:
            inside = case.owner[case.pairs[mine, 0]] == shard.part
            dropped += int((~inside).sum())
            mine = mine[inside]
        assert np.array_equal(csr.edge[entries], mine)
        assert np.array_equal(position[csr.neighbours[entries]], case.pairs[mine, 0])
    assert len(csr.edge) == csr.offsets[-1] == shard.record.edges
    assert shard.record.dropped == dropped


def check_transpose(shard: Shard) -> None:
    csr, back = shard.incoming, shard.outgoing
    row = np.repeat(np.arange(csr.rows), np.diff(csr.offsets))
    order = np.argsort(csr.neighbours, kind="stable")
    assert back.rows == shard.local
    assert np.array_equal(back.edge, order)
    assert np.array_equal(back.neighbours, row[order])
    assert np.array_equal(np.diff(back.offsets), np.bincount(csr.neighbours, minlength=shard.local))


def check_sub_parts(case: Case, shard: Shard) -> None:
    bounds = shard.sub_part_bounds
    assert len(bounds) == case.sub_parts + 1
    assert (bounds[0], bounds[-1]) == (0, shard.owned)
    assert (np.diff(bounds) >= 0).all()
    if shard.owned:
        weight = np.asarray(shard.in_degree[: shard.owned]).astype(int) + 1
        before = np.concatenate([[0], np.cumsum(weight)])
        share = before[-1] / case.sub_parts
        assert (np.abs(before[bounds] - share * np.arange(case.sub_parts + 1)) <= weight.max() / 2 + 1).all()


def check_typed_ranges(case: Case, shard: Shard) -> None:
    """Ranges cut sub-parts by type, in order of types; their entries are those of their rows."""
    record = shard.record
    if case.types is None:
        assert (record.type_offsets, record.entry_offsets) == ((), ())
        return
    bounds = np.array(record.type_offsets) - shard.first_global
    assert len(bounds) == case.sub_parts * len(TYPES) + 1
    assert np.array_equal(bounds[:: len(TYPES)], shard.sub_part_bounds)
    code = np.repeat(np.tile(np.arange(len(TYPES)), case.sub_parts), np.diff(bounds))
    assert np.array_equal(code, case.types[np.asarray(shard.position[: shard.owned])])
    assert record.entry_offsets == tuple(shard.incoming.offsets[bounds].tolist())
    assert np.array_equal(TypedRanges(shard.parts).types_of(np.arange(shard.owned) + shard.first_global), code)


def check_tables(case: Case, shard: Shard, position: np.ndarray) -> None:
    mine = position[: shard.owned]
    for name, values in case.tables().items():
        found = shard.node_table(name)
        if name == "words":
            assert isinstance(found, CsrTable)
            assert found.shape == (shard.owned, 5)
            whole = CsrTable(values[0], values[1], values[2], (case.nodes, 5))
            assert np.array_equal(found.dense(slice(None)), whole.dense(mine))
            assert found.values.dtype == values[2].dtype
        elif "@" in name:
            assert case.types is not None
            code = TYPES.index(name.partition("@")[2])
            of_type = mine[case.types[mine] == code]
            rows = rows_in_type(shard.record)[case.types[mine] == code]
            if isinstance(found, CsrTable):
                members = np.flatnonzero(case.types == code)
                assert found.shape == (len(of_type), 5)
                whole = CsrTable(values[0], values[1], values[2], (len(members), 5))
                assert np.array_equal(found.dense(rows), whole.dense(np.searchsorted(members, of_type)))
                continue
            assert np.array_equal(found, of_type[:, None] * 100.0)
            assert np.array_equal(np.asarray(found)[rows, 0], of_type * 100.0)
        else:
            assert found.dtype == values.dtype
            assert np.array_equal(found, values[mine])
    for name, values in case.edge_tables().items():
        assert np.array_equal(shard.edge_table(name), values[np.asarray(shard.incoming.edge)])


def check_send_lists(parts: Parts) -> None:
    """What part i sends part j is what j holds of i, in the same order."""
    every = [parts.shard(part) for part in range(len(parts))]
    for hop in range(max(1, parts.manifest.halo_hops)):
        for mine in every:
            for other in every:
                sent = mine.send_rows[slice(*mine.send_offsets[hop, other.part : other.part + 2])]
                held = other.halo_global[slice(*other.halo_offsets[hop, mine.part : mine.part + 2])]
                assert np.array_equal(sent + mine.first_global, held)
                assert mine is not other or not len(sent)
    assert sum(len(shard.send_rows) for shard in every) == sum(len(shard.halo_global) for shard in every)


def check_reassembled(case: Case, parts: Parts) -> None:
    """Owned rows (all rows of a vertex-cut) hold every edge exactly once."""
    found = []
    for shard in (parts.shard(part) for part in range(len(parts))):
        csr = shard.incoming
        rows = csr.rows if case.edge_part is not None else shard.owned
        row = np.repeat(np.arange(rows), np.diff(csr.offsets[: rows + 1]))
        entries = slice(0, csr.offsets[rows])
        position = np.asarray(shard.position)
        found.append(np.stack([csr.edge[entries], position[csr.neighbours[entries]], position[row]], 1))
    edges = np.concatenate(found)
    edges = edges[np.argsort(edges[:, 0])]
    assert np.array_equal(edges[:, 0], np.arange(len(case.pairs)))
    assert np.array_equal(edges[:, 1:], case.pairs)


def check(case: Case, parts: Parts) -> None:
    check_node_map(case, parts)
    for part in range(case.parts):
        check_shard(case, parts, part)
    check_send_lists(parts)
    if case.halo_hops:
        check_reassembled(case, parts)
