"""The breadth-first search of a team: announcements and totals by hand, layers against the whole graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.engine.hybrid.layers.plan import WorkerLayer
from starling.engine.hybrid.planning.active import ActiveSet
from starling.engine.hybrid.share.worker_graph import WorkerGraph, open_worker_graph
from starling.kernels.frontier import FrontierPool
from starling.kernels.sampling import take_all
from starling.store.parts import Parts
from tests.engine.hybrid.share.test_worker_graph import EDGE_PART, OWNER, PAIRS
from tests.support.parts import Case, build


def active_set(parts: Parts, team: Team) -> tuple[WorkerGraph, ActiveSet]:
    graph = open_worker_graph(parts, team.rank, team.size)
    return graph, ActiveSet(graph, team, FrontierPool(graph.rows), 0)


def test_announce_and_totals_by_hand(tmp_path: Path) -> None:
    """Worker 0 computes node 1 (row 1), worker 1 node 3 (its row 0); each is mirrored by the other, as row 3 in both cases."""
    parts = build(Case(6, PAIRS, 4, OWNER, EDGE_PART), tmp_path)
    own, counts = [np.array([1]), np.array([0])], [np.array([2, 5]), np.array([1, 7])]

    def work(team: Team) -> tuple[list[int], list[int], list[list[int]], list[int]]:
        _, active = active_set(parts, team)
        told = active.announce(own[team.rank])
        total = active.totals(told, counts[team.rank])
        return told.mirrors.tolist(), told.mirror_counts, [places.tolist() for places in told.told], total.tolist()

    first, second = run_threads(2, work)
    assert first == ([3], [0, 1], [[], [0]], [2 + 7, 5 + 1])
    assert second == ([3], [1, 0], [[0], []], [1 + 5, 7 + 2])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("kind", ["edge-cut", "vertex-cut"])
def test_two_layers_against_the_whole_graph(tmp_path: Path, kind: str, workers: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    nodes = 40
    pairs, owner = draw.integers(0, nodes, (60, 2)), draw.choice([0, 1, 3], nodes).astype(np.int32)
    edge_part = draw.integers(0, 4, len(pairs)).astype(np.uint16) if kind == "vertex-cut" else None
    parts = build(Case(nodes, pairs, 4, owner, edge_part), tmp_path)
    targets = draw.choice(nodes, 5, replace=False)

    def work(team: Team) -> tuple[WorkerGraph, list[tuple[NDArray[Any], WorkerLayer]]]:
        graph, active = active_set(parts, team)
        own: NDArray[Any] = np.flatnonzero(np.isin(graph.position[: graph.owned], targets))
        layers = []
        for _ in range(2):
            layer, reads = active.expand(own, lambda rows: take_all(graph.incoming, rows))
            layers.append((own, layer))
            assert np.array_equal(reads, layer.rows[: layer.traffic.owned])
            own = reads
        return graph, layers

    everywhere = run_threads(workers, work)
    reached = set(targets.tolist())
    for hop in range(2):
        computed, edges, read = [], [], []
        for worker, (graph, layers) in enumerate(everywhere):
            own, layer = layers[hop]
            assert np.array_equal(layer.rows[: layer.outputs], own)
            position, block = graph.position[layer.rows], layer.edges.block
            row = np.repeat(np.arange(block.destinations), np.diff(block.offsets))
            edge = graph.incoming.edge[block.edge]
            assert np.array_equal(position[block.neighbours], pairs[edge, 0])
            assert np.array_equal(position[row], pairs[edge, 1])
            computed += graph.position[own].tolist()
            read += position[: layer.traffic.owned].tolist()
            edges += edge.tolist()
            for peer, (other, theirs) in enumerate(everywhere):
                sent = position[layer.traffic.send[peer]]
                there = theirs[hop][1]
                where = there.traffic.mirrors_of(worker)
                assert np.array_equal(sent, other.position[there.rows[where]])
        assert sorted(computed) == sorted(reached)  # each by one worker only
        assert sorted(edges) == np.flatnonzero(np.isin(pairs[:, 1], list(reached))).tolist()
        reached |= set(pairs[np.isin(pairs[:, 1], list(reached)), 0].tolist())
        assert sorted(read) == sorted(reached)
