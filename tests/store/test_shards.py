"""Shards against brute force: put together again they are the graph, and halos are what a search finds."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from starling.core.assignment import Assignment
from starling.core.errors import InputError
from starling.core.manifest import file_entry
from starling.store.graph import CsrTable
from starling.store.parts import Parts, open_parts
from starling.store.shards import build_parts
from tests.support.data import real_graph
from tests.support.graphs import write_assignment, write_graph
from tests.support.parts import MEMORY, Case, build, check, check_reassembled, check_send_lists

EMPTY_PARTS = Case(3, np.array([[0, 1], [1, 1], [0, 1], [2, 0]], np.int32), 4, np.array([3, 1, 3], np.int32))
STAR = Case(6, np.array([[leaf, 0] for leaf in range(1, 6)] * 3, np.int32), 3, np.array([0, 0, 1, 1, 2, 2], np.int32))


@st.composite
def cases(draw: st.DrawFn, *, vertex_cut: bool = False, hops: st.SearchStrategy[int] | None = None) -> Case:
    nodes = draw(st.integers(1, 12))
    node = st.integers(0, nodes - 1)
    pairs = np.array(draw(st.lists(st.tuples(node, node), max_size=40)), np.int32).reshape(-1, 2)
    parts = draw(st.integers(1, 5))
    part = st.integers(0, parts - 1)
    owner = np.array(draw(st.lists(part, min_size=nodes, max_size=nodes)), np.int32)
    many = draw(st.lists(part, min_size=len(pairs), max_size=len(pairs))) if vertex_cut else None
    locality = draw(st.none() | st.lists(st.integers(0, 3), min_size=nodes, max_size=nodes))
    types = draw(st.none() | st.lists(st.integers(0, 1), min_size=nodes, max_size=nodes))
    return Case(
        nodes,
        pairs,
        parts,
        owner,
        None if many is None else np.array(many, np.uint16),
        None if locality is None else np.array(locality, np.int32),
        draw(hops) if hops is not None else 1,
        draw(st.integers(1, 3)),
        None if types is None else np.array(types, np.uint8),
    )


@settings(deadline=None, max_examples=30)
@example(EMPTY_PARTS)
@example(STAR)
@given(cases())
def test_an_edge_cut_reassembles(case: Case) -> None:
    with TemporaryDirectory() as directory:
        check(case, build(case, Path(directory)))


@settings(deadline=None, max_examples=30)
@given(cases(hops=st.sampled_from([0, 2, 3])))
def test_hops_are_what_a_search_finds(case: Case) -> None:
    with TemporaryDirectory() as directory:
        check(case, build(case, Path(directory)))


@settings(deadline=None, max_examples=30)
@given(cases(vertex_cut=True))
def test_a_vertex_cut_reassembles(case: Case) -> None:
    with TemporaryDirectory() as directory:
        check(case, build(case, Path(directory)))


def bytes_of(parts: Parts) -> dict[str, str]:
    return {
        str(path.relative_to(parts.path)): file_entry(path).sha256 for path in sorted(parts.path.rglob("*")) if path.is_file()
    }


@settings(deadline=None, max_examples=12)
@given(cases(hops=st.integers(0, 3)) | cases(vertex_cut=True), st.sampled_from([1, 40, 200]))
def test_little_memory_and_one_thread_give_the_same_bytes(case: Case, working: int) -> None:
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        assert bytes_of(build(case, Path(one), working=working, threads=1)) == bytes_of(build(case, Path(other)))


def test_a_path_cut_in_two_by_hand(tmp_path: Path) -> None:
    """0 → 1 → 2 → 3, nodes 0 and 3 in part 0, 1 and 2 in part 1: laid out as (0, 3) and (2, 1), heard before hearing."""
    pairs = np.array([[0, 1], [1, 2], [2, 3]], np.int32)
    owner, locality = np.array([0, 1, 1, 0], np.int32), np.array([9, 0, 0, 1], np.int32)
    parts = build(Case(4, pairs, 2, owner, locality=locality), tmp_path)
    assert parts.manifest.offsets == (0, 2, 4)
    assert parts.global_of_position.tolist() == [0, 3, 2, 1]
    left, right = parts.shard(0), parts.shard(1)
    assert left.incoming.offsets.tolist() == [0, 0, 1]
    assert left.incoming.neighbours.tolist() == [2]
    assert left.incoming.edge.tolist() == [2]
    assert left.halo_global.tolist() == [2]
    assert left.halo_offsets.tolist() == [[0, 0, 1]]
    assert left.send_rows.tolist() == [0]
    assert left.send_offsets.tolist() == [[0, 0, 1]]
    assert right.incoming.offsets.tolist() == [0, 1, 2]
    assert right.incoming.neighbours.tolist() == [1, 2]
    assert right.outgoing.offsets.tolist() == [0, 0, 1, 2]
    assert right.outgoing.neighbours.tolist() == [0, 1]
    assert right.outgoing.edge.tolist() == [0, 1]
    assert right.position.tolist() == [2, 1, 0]
    assert parts.manifest.method == "test"
    assert parts.manifest.seed == 3
    assert parts.manifest.settings == {"tolerance": 0.05}
    assert parts.manifest.quality == {"edge_cut": 0.5}
    assert parts.manifest.input == file_entry(tmp_path / "graph" / "edges.npy").sha256


def test_more_parts_than_nodes(tmp_path: Path) -> None:
    owner = np.array([40, 3, 17], np.int32)
    case = Case(3, np.array([[0, 1], [1, 2], [2, 0], [2, 2]], np.int32), 60, owner)
    check(case, build(case, tmp_path))


def test_a_real_graph_keeps_every_edge_and_feature(tmp_path: Path) -> None:
    with np.load(real_graph("cora")) as data:
        pairs, nodes = data["edge_index"].T.copy(), int(data["num_nodes"])
        sparse = (
            (data["x_indptr"], data["x_indices"], data["x_data"], int(data["x_shape"][1])) if "x_data" in data else data["x"]
        )
    graph = write_graph(tmp_path / "graph", pairs, nodes, directed=False, node_tables={"x": sparse})
    owner = np.random.default_rng(0).integers(0, 4, nodes, dtype=np.int32)
    assigned = write_assignment(tmp_path / "assignment", Assignment("edge-cut", 4, owner), len(pairs))
    (tmp_path / "parts").mkdir()
    build_parts(graph, assigned, tmp_path / "parts", memory=MEMORY)
    parts = open_parts(tmp_path / "parts")
    check_reassembled(Case(nodes, pairs, 4, owner), parts)
    check_send_lists(parts)
    whole = graph.node_table("x")
    for shard in (parts.shard(part) for part in range(4)):
        mine = np.asarray(shard.position[: shard.owned])
        found = shard.node_table("x")
        if isinstance(found, CsrTable) and isinstance(whole, CsrTable):
            assert np.array_equal(found.dense(slice(None)), whole.dense(mine))
        else:
            assert np.array_equal(found, np.asarray(whole)[mine])


def test_files_are_narrow(tmp_path: Path) -> None:
    shard = build(STAR, tmp_path).shard(0)
    for array in (shard.incoming.neighbours, shard.incoming.edge, shard.outgoing.neighbours, shard.position, shard.in_degree):
        assert array.dtype == np.int32
    assert shard.incoming.offsets.dtype == np.int64


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"halo_hops": 4}, "Expected 0 to 3 halo hops, got 4"),
        ({"sub_parts": 0}, "at least 1 sub-part"),
        ({"memory": 1 << 20}, "needs a budget of at least"),
    ],
)
def test_bad_settings_are_refused(tmp_path: Path, change: dict[str, int], sentence: str) -> None:
    graph = write_graph(tmp_path / "graph", STAR.pairs, STAR.nodes)
    assigned = write_assignment(tmp_path / "assignment", Assignment("edge-cut", 3, STAR.owner), len(STAR.pairs))
    with pytest.raises(InputError, match=sentence):
        build_parts(graph, assigned, tmp_path, **({"memory": MEMORY} | change))


def test_an_assignment_of_another_graph_is_refused(tmp_path: Path) -> None:
    graph = write_graph(tmp_path / "graph", STAR.pairs, STAR.nodes)
    assigned = write_assignment(tmp_path / "assignment", Assignment("edge-cut", 3, STAR.owner), 7)
    with pytest.raises(InputError, match="Partition this graph again"):
        build_parts(graph, assigned, tmp_path, memory=MEMORY)


def test_a_vertex_cut_has_no_hops_to_choose(tmp_path: Path) -> None:
    graph = write_graph(tmp_path / "graph", STAR.pairs, STAR.nodes)
    assignment = Assignment("vertex-cut", 3, STAR.owner, np.zeros(len(STAR.pairs), np.uint16))
    assigned = write_assignment(tmp_path / "assignment", assignment, len(STAR.pairs))
    with pytest.raises(InputError, match="no halo hops to choose"):
        build_parts(graph, assigned, tmp_path, halo_hops=2, memory=MEMORY)


def test_an_edge_given_to_no_part_is_refused(tmp_path: Path) -> None:
    graph = write_graph(tmp_path / "graph", STAR.pairs, STAR.nodes)
    assignment = Assignment("vertex-cut", 3, STAR.owner, np.full(len(STAR.pairs), 5, np.uint16))
    assigned = write_assignment(tmp_path / "assignment", assignment, len(STAR.pairs))
    (tmp_path / "parts").mkdir()
    with pytest.raises(InputError, match="gives an edge to part 5"):
        build_parts(graph, assigned, tmp_path / "parts", memory=MEMORY)
