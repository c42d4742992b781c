"""Partition policies: ranges by hand, every node and edge at its place, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.store.graph import CsrTable
from starling.store.parts import Parts, open_parts
from starling.store.policies import RangePolicy, TypedRanges, edge_policy, node_policy, rows_in_type
from tests.store.test_shards import cases
from tests.support.parts import EDGE_TYPES, TYPES, Case, build, check

PAIRS = np.array([[1, 0], [3, 2], [4, 5], [5, 0], [6, 0], [7, 6], [0, 7], [2, 5]], np.int32)
KINDS = np.array([1, 0, 1, 0, 0, 1, 1, 0], np.uint8)
OWNER = np.array([0, 0, 0, 0, 0, 0, 2, 3], np.int32)
LOCALITY = np.array([5, 4, 3, 2, 1, 0, 0, 0], np.int32)
"""Part 0 has nodes 5, 4, 3, 2, 1, 0 in this order, part 1 none, part 2 one paper, part 3 one author."""


def small(folder: Path, sub_parts: int) -> Parts:
    case = Case(8, PAIRS, 4, OWNER, locality=LOCALITY, sub_parts=sub_parts, types=KINDS)
    parts = build(case, folder)
    check(case, parts)
    return parts


def ranges(policy: RangePolicy) -> list[tuple[int, int, int, int]]:
    """First id, last id + 1, part, row of the first."""
    return list(zip(*(array.tolist() for array in (policy.first, policy.last, policy.part, policy.row)), strict=True))


def test_a_part_in_two_sub_parts_by_hand(tmp_path: Path) -> None:
    """Nodes and in-edges of 5, 4, 3, 2, 1, 0 weigh 3 1 1 2 1 4, so halves are (5, 4, 3, 2) and (1, 0); authors are 4, 3 and 1."""
    parts = small(tmp_path, 2)
    manifest = parts.manifest
    assert parts.position_of_global.tolist() == [4, 3, 5, 2, 1, 0, 6, 7]
    assert [record.sub_offsets for record in manifest.shards] == [(0, 4, 6), (6, 6, 6), (6, 7, 7), (7, 8, 8)]
    assert [record.type_offsets for record in manifest.shards] == [
        (0, 2, 4, 5, 6),
        (6, 6, 6, 6, 6),
        (6, 6, 7, 7, 7),
        (7, 8, 8, 8, 8),
    ]
    # Nodes 5, 2 and 0 have two, one and three in-edges, node 6 one, node 7 one.
    assert [record.entry_offsets for record in manifest.shards] == [
        (0, 0, 3, 3, 6),
        (0, 0, 0, 0, 0),
        (0, 0, 1, 1, 1),
        (0, 1, 1, 1, 1),
    ]
    assert rows_in_type(manifest.shards[0]).tolist() == [0, 1, 0, 1, 2, 2]
    assert TypedRanges(manifest).types_of(np.arange(8)).tolist() == [0, 0, 1, 1, 0, 1, 1, 0]
    papers = node_policy(manifest, "paper", alone=True)
    assert ranges(papers) == [(2, 4, 0, 0), (5, 6, 0, 2), (6, 7, 2, 0)]
    assert papers.rows_before.tolist() == [0, 3, 3, 4, 4]
    assert papers.numbers(np.array([6, 2, 5])).tolist() == [3, 0, 2]
    authors = node_policy(manifest, "author", alone=True)
    assert ranges(authors) == [(0, 2, 0, 0), (4, 5, 0, 2), (7, 8, 3, 0)]
    assert authors.rows_before.tolist() == [0, 3, 3, 3, 4]
    among_all = node_policy(manifest, "paper")
    assert ranges(among_all) == [(2, 4, 0, 2), (5, 6, 0, 5), (6, 7, 2, 0)]
    assert among_all.numbers(np.array([6, 2, 5])).tolist() == [6, 2, 5]
    placed = papers.place(np.array([6, 3, 5, 3], np.int32))
    assert (placed.parts.tolist(), placed.rows.tolist()) == ([2, 0, 0, 0], [0, 1, 2, 1])
    assert [placed.by_part.of(part, part + 1).tolist() for part in range(4)] == [[1, 2, 3], [], [0], []]


def test_edges_by_hand(tmp_path: Path) -> None:
    """Entries 0 … 5 are of part 0, 6 of part 2, 7 of part 3, whose node is an author."""
    manifest = small(tmp_path, 2).manifest
    assert ranges(edge_policy(manifest)) == [(0, 6, 0, 0), (6, 7, 2, 0), (7, 8, 3, 0)]
    to_papers = edge_policy(manifest, "author__to__paper")
    assert ranges(to_papers) == [(0, 3, 0, 0), (3, 6, 0, 3), (6, 7, 2, 0)]
    to_authors = edge_policy(manifest, "paper__to__author")
    assert ranges(to_authors) == [(7, 8, 3, 0)]
    assert to_authors.numbers(np.array([7])).tolist() == [7]
    alone = edge_policy(manifest, "paper__to__author", alone=True)
    assert (ranges(alone), alone.rows_before.tolist()) == ([(7, 8, 3, 0)], [0, 0, 0, 0, 1])
    assert ranges(edge_policy(manifest, "likes")) == ranges(edge_policy(manifest)), "its name says nothing of node types"


def test_a_part_in_one_piece_by_hand(tmp_path: Path) -> None:
    parts = small(tmp_path, 1)
    assert parts.position_of_global.tolist() == [4, 3, 1, 5, 2, 0, 6, 7]
    assert [record.type_offsets for record in parts.manifest.shards] == [(0, 3, 6), (6, 6, 6), (6, 6, 7), (7, 8, 8)]
    assert [record.entry_offsets for record in parts.manifest.shards] == [(0, 0, 6), (0, 0, 0), (0, 0, 1), (0, 1, 1)]
    assert ranges(node_policy(parts.manifest, "author", alone=True)) == [(0, 3, 0, 0), (7, 8, 3, 0)]
    assert ranges(node_policy(parts.manifest)) == [(0, 6, 0, 0), (6, 7, 2, 0), (7, 8, 3, 0)]
    assert np.asarray(parts.shard(0).node_table("x@paper"))[:, 0].tolist() == [500, 200, 0]
    assert np.asarray(parts.shard(2).node_table("x@author")).shape == (0, 1)
    assert not list(parts.path.rglob("type_row.npy"))


@settings(deadline=None, max_examples=40)
@example(Case(3, np.zeros((0, 2), np.int32), 5, np.array([4, 1, 4], np.int32), sub_parts=3, types=np.zeros(3, np.uint8)))
@given(cases(hops=st.integers(1, 2)).filter(lambda case: case.types is not None))
def test_every_row_is_where_the_policy_says(case: Case) -> None:
    """Nodes in tables of their type and of all nodes, dense and sparse; edges in the lists of their destinations."""
    assert case.types is not None
    with TemporaryDirectory() as directory:
        parts = build(case, Path(directory))
        manifest, position = parts.manifest, np.asarray(parts.position_of_global)
        shards = [parts.shard(part) for part in range(case.parts)]
        for code, name in enumerate(TYPES):
            ids = np.flatnonzero(case.types[position] == code)
            alone, among_all = node_policy(manifest, name, alone=True), node_policy(manifest, name)
            assert alone.rows_before[-1] == len(ids)
            assert np.array_equal(alone.numbers(ids), np.arange(len(ids)))
            own, every = alone.place(ids), among_all.place(ids)
            assert np.array_equal(own.parts, case.owner[position[ids]])
            members = np.flatnonzero(case.types == code)
            words = CsrTable(*case.tables()[f"words@{name}"][:3], (len(members), 5)).dense(slice(None))
            for node, part, row, row_of_all in zip(position[ids], own.parts, own.rows, every.rows, strict=True):
                assert shards[part].node_table(f"x@{name}")[row, 0] == node * 100
                assert shards[part].node_table("y")[row_of_all] == node * 7
                sparse = shards[part].node_table(f"words@{name}")
                assert isinstance(sparse, CsrTable)
                assert np.array_equal(sparse.dense(np.array([row]))[0], words[np.searchsorted(members, node)])
            for other in np.setdiff1d(np.arange(case.nodes), ids):
                with pytest.raises(InputError, match=f"nodes of the type '{name}', got {other}"):
                    alone.place(np.array([other]))
        check_edges(case, parts)


def check_edges(case: Case, parts: Parts) -> None:
    """Entries of owned nodes' lists, by hand: those of one type are inside the type's ranges, others' destinations outside."""
    whole = edge_policy(parts.manifest)
    for code, name in enumerate(EDGE_TYPES[:-1]):
        policy, alone = edge_policy(parts.manifest, name), edge_policy(parts.manifest, name, alone=True)
        inside = []
        for shard in (parts.shard(part) for part in range(case.parts)):
            first = int(whole.rows_before[shard.part])
            for entry, edge in enumerate(shard.incoming.edge[: shard.incoming.offsets[shard.owned]]):
                if case.edge_tables()["type"][edge] % len(TYPES) == code % len(TYPES):
                    placed = policy.place(np.array([first + entry]))
                    assert (placed.parts.tolist(), placed.rows.tolist()) == ([shard.part], [entry])
                    inside.append(first + entry)
                else:
                    with pytest.raises(InputError, match=f"edges of the type '{name}'"):
                        policy.place(np.array([first + entry]))
        assert np.array_equal(policy.numbers(np.array(inside, np.int64)), inside)
        assert np.array_equal(alone.numbers(np.array(inside, np.int64)), np.arange(len(inside)))
        assert alone.rows_before[-1] == len(inside)


def test_what_is_refused(tmp_path: Path) -> None:
    manifest = small(tmp_path, 2).manifest
    with pytest.raises(InputError, match=r"^Expected ids in \[0, 8\) for the node table 'x', got 8\.$"):
        node_policy(manifest).place(np.array([0, 8]), "the node table 'x'")
    with pytest.raises(InputError, match=r"got -1\.$"):
        edge_policy(manifest).place(np.array([-1]))
    with pytest.raises(InputError, match=r"^Expected ids of nodes of the type 'author', got 2\.$"):
        node_policy(manifest, "author").place(np.array([0, 2, 3]))
    with pytest.raises(InputError, match=r"of the type 'paper__to__author', which are in lists of 'author', got 6\.$"):
        edge_policy(manifest, "paper__to__author").place(np.array([7, 6]))
    with pytest.raises(InputError, match=r"no node type 'papr'.*Did you mean 'paper'"):
        node_policy(manifest, "papr")
    with pytest.raises(InputError, match="no edge type 'writes'"):
        edge_policy(manifest, "writes")


def test_a_type_without_nodes_places_none(tmp_path: Path) -> None:
    parts = build(Case(2, np.array([[0, 1]]), 2, np.array([0, 1]), types=np.zeros(2, np.uint8)), tmp_path)
    policy = node_policy(parts.manifest, "paper", alone=True)
    assert (ranges(policy), policy.rows_before.tolist()) == ([], [0, 0, 0])
    assert len(policy.place(np.empty(0, np.int64)).parts) == 0
    with pytest.raises(InputError, match="nodes of the type 'paper', got 0"):
        policy.place(np.array([0]))


def test_a_vertex_cut_has_no_ranges_of_edges_by_type(tmp_path: Path) -> None:
    owner, edge_part = np.array([0, 1]), np.array([0], np.uint16)
    parts = build(Case(2, np.array([[0, 1]]), 2, owner, edge_part, types=np.array([0, 1], np.uint8)), tmp_path)
    assert ranges(node_policy(parts.manifest, "paper", alone=True)) == [(1, 2, 1, 0)]
    with pytest.raises(InputError, match="A vertex-cut has edges of 'author__to__paper' away from their destinations"):
        edge_policy(parts.manifest, "author__to__paper")


def test_parts_from_before_typed_ranges_are_refused(tmp_path: Path) -> None:
    parts = small(tmp_path, 2)
    path = parts.path / "manifest.json"
    document = json.loads(path.read_text())
    for record in document["shards"]:
        del record["type_offsets"], record["entry_offsets"]
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"made before nodes of a part were ordered by type.*Partition again\.$"):
        open_parts(parts.path)
    path.write_text(json.dumps(document | {"node_types": []}))
    open_parts(parts.path)  # without types there is nothing to say
