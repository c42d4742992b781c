"""The parts of one worker joined: counted by hand, and against the edges of the whole graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.engine.hybrid.share.worker_graph import WorkerGraph, open_worker_graph, parts_of_worker
from starling.store.parts import Parts
from tests.support.parts import Case, build

PAIRS = np.array([[0, 1], [2, 1], [4, 1], [5, 4], [1, 4], [3, 0]])
OWNER = np.array([0, 0, 1, 2, 2, 3], np.int32)
EDGE_PART = np.array([0, 1, 2, 3, 1, 0], np.uint16)


def lists(graph: WorkerGraph) -> list[list[int]]:
    offsets = graph.incoming.offsets
    return [graph.incoming.neighbours[offsets[row] : offsets[row + 1]].tolist() for row in range(graph.incoming.rows)]


def test_parts_are_dealt_in_order_and_evenly() -> None:
    assert [parts_of_worker(worker, 3, 8) for worker in range(3)] == [range(2), range(2, 5), range(5, 8)]
    assert [len(parts_of_worker(worker, 4, 4)) for worker in range(4)] == [1] * 4


def test_two_workers_of_an_edge_cut_by_hand(tmp_path: Path) -> None:
    """Worker 0 owns nodes 0, 1, 2 and hears 3 and 4; worker 1 owns 3, 4, 5 and hears 1. Node 1, which is heard too, is before 0."""
    parts = build(Case(6, PAIRS, 4, OWNER), tmp_path)
    first, second = (open_worker_graph(parts, worker, 2) for worker in range(2))
    assert (first.owned, first.rows, first.spread) == (3, 5, False)
    assert lists(first) == [[1, 2, 4], [3], []]
    assert first.incoming.edge.tolist() == [0, 1, 2, 5]
    assert first.position.tolist() == [1, 0, 2, 3, 4]
    assert first.in_degree.tolist() == [3, 1, 0, 0, 2]
    assert first.part.tolist() == [0, 0, 1, 2, 2]
    assert [rows.tolist() for rows in first.traffic.send] == [[], [0]]
    assert first.traffic.mirror_offsets == (0, 0, 2)
    assert lists(second) == [[], [2, 3], []]
    assert second.position.tolist() == [3, 4, 5, 1]
    assert [rows.tolist() for rows in second.traffic.send] == [[0, 1], []]
    assert [(rows.tolist(), part.tolist()) for rows, part in first.heard_by] == [([], []), ([0], [2])]
    assert [(rows.tolist(), part.tolist()) for rows, part in second.heard_by] == [([0, 1], [0, 0]), ([], [])]


def test_two_workers_of_a_vertex_cut_by_hand(tmp_path: Path) -> None:
    """Worker 0 has edges 0, 1, 4 and 5, worker 1 has 2 and 3: both know in-edges of nodes 1 and 4."""
    parts = build(Case(6, PAIRS, 4, OWNER, EDGE_PART), tmp_path)
    first, second = (open_worker_graph(parts, worker, 2) for worker in range(2))
    assert first.spread
    assert lists(first) == [[3], [0, 2], [], [], [1]]
    assert first.incoming.edge.tolist() == [5, 0, 1, 4]
    assert lists(second) == [[], [2], [], [1]]
    assert second.incoming.edge.tolist() == [3, 2]
    assert [rows.tolist() for rows in first.traffic.send] == [[], [1]]
    assert [rows.tolist() for rows in second.traffic.send] == [[0, 1], []]
    assert first.edge_column("weight").tolist() == [1.25, 0.0, 0.25, 1.0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["edge-cut", "vertex-cut"])
def test_against_the_whole_graph(tmp_path: Path, kind: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    nodes, count = 25, 70
    pairs, owner = draw.integers(0, nodes, (count, 2)), draw.choice([0, 1, 3, 4, 6], nodes).astype(np.int32)
    edge_part = draw.integers(0, 7, count).astype(np.uint16) if kind == "vertex-cut" else None
    case = Case(nodes, pairs, 7, owner, edge_part, halo_hops=1 if edge_part is not None else 1 + seed % 3)
    parts = build(case, tmp_path)
    for workers in (1, 2, 3, 7):
        _check(case, parts, [open_worker_graph(parts, worker, workers) for worker in range(workers)])


def _check(case: Case, parts: Parts, graphs: list[WorkerGraph]) -> None:
    """Every edge is held once, tables follow it, and what one sends the other mirrors, in the same order."""
    found = []
    for worker, graph in enumerate(graphs):
        row = np.repeat(np.arange(graph.incoming.rows), np.diff(graph.incoming.offsets))
        edge = graph.incoming.edge
        assert np.array_equal(graph.position[row], case.pairs[edge, 1])
        assert np.array_equal(graph.position[graph.incoming.neighbours], case.pairs[edge, 0])
        assert np.array_equal(np.lexsort((edge, row)), np.arange(len(edge)))
        assert np.array_equal(graph.edge_column("weight"), case.edge_tables()["weight"][edge])
        assert np.array_equal(graph.node_column("y"), case.tables()["y"][graph.position[: graph.owned]])
        assert np.array_equal(graph.part, case.owner[graph.position])
        assert np.array_equal(graph.in_degree, np.bincount(case.pairs[:, 1], minlength=case.nodes)[graph.position])
        assert np.isin(graph.part[: graph.owned], parts_of_worker(worker, len(graphs), len(parts))).all()
        for other, peer in enumerate(graphs):
            sent = graph.position[graph.traffic.send[other]]
            assert np.array_equal(sent, peer.position[peer.traffic.mirrors_of(worker)])
            assert np.array_equal(np.unique(graph.heard_by[other][0]), graph.traffic.send[other])
        found.append(edge)
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(len(case.pairs)))


def test_parts_that_left_edges_out_are_refused(tmp_path: Path) -> None:
    parts = build(Case(6, PAIRS, 4, OWNER, halo_hops=0), tmp_path)
    with pytest.raises(InputError, match="zero halo hops"):
        open_worker_graph(parts, 0, 2)


def test_sparse_tables_are_refused(tmp_path: Path) -> None:
    graph = open_worker_graph(build(Case(6, PAIRS, 4, OWNER), tmp_path), 0, 2)
    with pytest.raises(InputError, match="'words' as a plain array"):
        graph.node_column("words")


def test_damaged_lists_are_refused(tmp_path: Path) -> None:
    parts = build(Case(6, PAIRS, 4, OWNER), tmp_path)
    file = parts.shard(0).path / "in.neighbours.npy"
    lists = np.load(file)
    np.save(file, np.where(lists == lists.max(), np.iinfo(lists.dtype).max, lists).astype(lists.dtype))
    with pytest.raises(InputError, match=r"Lists of part 0 in .* name rows that it does not have.*inspect .* --verify"):
        open_worker_graph(parts, 0, 2)
