"""Layers that are read from the whole graph's lists: the same rows, edges and sums as a copy has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.engine.hybrid.layers.plan import WorkerLayer
from starling.engine.hybrid.layers.split_edges import SplitEdges
from starling.engine.hybrid.planning.active import ActiveSet
from starling.engine.hybrid.planning.mapped_edges import MappedEdges
from starling.engine.hybrid.share.worker_graph import open_worker_graph
from starling.kernels.adjacency import Lists
from starling.kernels.frontier import FrontierPool
from starling.kernels.rows import rows_of
from starling.kernels.sampling import take_all
from starling.kernels.spmm import Coefficients, weighted_sum
from starling.store.parts import Parts
from tests.support.parts import Case, build

Layers = list[tuple[WorkerLayer, WorkerLayer]]
"""Copied and read in place, hop after hop."""


def both_ways(parts: Parts, workers: int, targets: NDArray[Any], hops: int) -> list[Layers]:
    def work(team: Team) -> Layers:
        graph = open_worker_graph(parts, team.rank, team.size)
        active = ActiveSet(graph, team, FrontierPool(graph.rows), 0)
        own: NDArray[Any] = np.flatnonzero(np.isin(graph.position[: graph.owned], targets))
        layers = []
        for _ in range(hops):
            copied, reads = active.expand(own, lambda rows: take_all(graph.incoming, rows))
            in_place, same = active.expand_whole(own)
            assert np.array_equal(reads, same)
            layers.append((copied, in_place))
            own = reads
        return layers

    return run_threads(workers, work)


def dense(lists: Lists, columns: int, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum over lists as a matrix, with a weight an edge, or none."""
    out, none = np.empty((lists.rows, columns)), np.empty(0)
    weighted_sum(lists, Coefficients(weight, none, none, none), rows_of(np.eye(columns)), rows_of(out))
    return out


def matrices(layer: WorkerLayer, weight: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All edges [destinations, rows], and the same as gathered from the transposed lists."""
    return of_split(layer, layer.edges.split(numbered=len(weight) > 0), weight)


def of_split(
    layer: WorkerLayer, split: SplitEdges[Any], weight: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    traffic, destinations = layer.traffic, split.inner.rows
    forward, backward = np.zeros((destinations, traffic.rows)), np.zeros((traffic.rows, destinations))
    forward[:, : traffic.owned] = dense(split.inner, traffic.owned, weight)
    backward[: traffic.owned] = dense(split.inner.turned_for(weight), destinations, weight)
    for peer, edges in split.peers.items():
        mirrors = traffic.mirrors_of(peer)
        forward[edges.rows, mirrors] = dense(edges.forward, mirrors.stop - mirrors.start, weight)
        backward[mirrors] = dense(edges.backward, destinations, weight)
    return forward, backward


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("kind", ["edge-cut", "vertex-cut"])
def test_the_same_layers_either_way(tmp_path: Path, kind: str, workers: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    pairs, owner = draw.integers(0, 30, (500, 2)), draw.choice([0, 1, 3], 30).astype(np.int32)
    edge_part = None if kind == "edge-cut" else draw.choice([0, 1, 3], 500).astype(np.uint16)
    parts = build(Case(30, pairs, 4, owner, edge_part), tmp_path)
    mapped = 0
    for layers in both_ways(parts, workers, draw.choice(30, 9, replace=False), 2):
        for copied, in_place in layers:
            assert np.array_equal(copied.rows, in_place.rows)
            assert (copied.outputs, copied.edges.count) == (in_place.outputs, in_place.edges.count)
            assert copied.traffic.mirror_offsets == in_place.traffic.mirror_offsets
            for ours, theirs in zip(copied.traffic.send, in_place.traffic.send, strict=True):
                assert np.array_equal(ours, theirs)
            for name in ("offsets", "neighbours", "edge"):
                assert np.array_equal(getattr(copied.edges.block, name), getattr(in_place.edges.block, name))
            if not isinstance(in_place.edges, MappedEdges):
                continue
            mapped += 1
            lists, block = in_place.edges.lists, copied.edges.block
            own = min(copied.traffic.owned, block.destinations)
            assert np.array_equal(lists.offsets, block.offsets)
            assert np.array_equal(in_place.edges.entries, block.edge)
            for weight in (np.empty(0), draw.permutation(copied.edges.count) + 1.0):
                expected = np.zeros((block.destinations, len(copied.rows)))
                row = np.repeat(np.arange(block.destinations), np.diff(block.offsets))
                np.add.at(expected, (row, block.neighbours), weight if len(weight) else 1)
                for layer in (copied, in_place):
                    forward, backward = matrices(layer, weight)
                    np.testing.assert_array_equal(forward, expected)
                    np.testing.assert_array_equal(backward.T, expected)
                    split: SplitEdges[Any] = layer.edges.split(numbered=len(weight) > 0)
                    for piece, rows in zip(split.cut(own), np.split(expected, [own]), strict=True):
                        forward, backward = of_split(layer, piece, weight)
                        np.testing.assert_array_equal(forward, rows)
                        np.testing.assert_array_equal(backward.T, rows)
                np.testing.assert_array_equal(dense(lists, len(copied.rows), weight), expected)
                np.testing.assert_array_equal(dense(lists.transposed, block.destinations, weight).T, expected)
    assert mapped > 0


def test_small_layers_are_copied(tmp_path: Path) -> None:
    """A row with one in-edge in a graph of four: the map would be longer than the list."""
    parts = build(Case(4, np.array([[0, 1], [1, 2], [2, 3]]), 1, np.zeros(4, np.int32)), tmp_path)
    ((layer,),) = both_ways(parts, 1, np.array([3]), 1)
    assert not isinstance(layer[1].edges, MappedEdges)
    assert layer[1].edges.block.neighbours.tolist() == [1]


@pytest.mark.parametrize("workers", [1, 2])
def test_sources_with_long_lists_are_copied(tmp_path: Path, workers: int) -> None:
    """Node 0 hears from 1 to 9, own rows or mirrors, which feed 10 to 99 too: 810 entries would be skipped for 109 edges."""
    hubs = np.array([[source, target] for source in range(1, 10) for target in (0, *range(10, 100))])
    ones = np.array([[0, 0]] * 100)  # enough edges for a map to pay
    owner = np.zeros(100, np.int32)
    owner[1:10] = workers - 1
    parts = build(Case(100, np.concatenate([hubs, ones]), workers, owner), tmp_path)
    ((_, in_place),) = both_ways(parts, workers, np.array([0]), 1)[0]
    assert in_place.edges.count == 109
    assert not isinstance(in_place.edges, MappedEdges)
