"""Layers of which some edges were taken, read from the whole graph's lists: the rows, edges and sums that a copy has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.engine.hybrid.layers.plan import WorkerLayer
from starling.engine.hybrid.planning import active as search
from starling.engine.hybrid.planning.active import ActiveSet, Take
from starling.engine.hybrid.planning.boundary import Boundary
from starling.engine.hybrid.planning.taken_edges import TakenEdges
from starling.engine.hybrid.share.worker_graph import WorkerGraph, open_worker_graph
from starling.kernels.frontier import FrontierPool
from starling.kernels.sampling import Taken, take_all, take_uniform
from starling.store.parts import Parts
from tests.engine.hybrid.planning.test_mapped_edges import Layers, dense, matrices
from tests.support.parts import Case, build

WAYS = ("fan-out", "with replacement", "boundary", "both")


def take_of(way: str, graph: WorkerGraph) -> Take:
    def take(rows: NDArray[Any]) -> Taken:
        if way == "boundary":
            return Boundary(graph, 0.5, 3).thin(take_all(graph.incoming, rows), rows, 1)
        replace = way == "with replacement"
        taken = take_uniform(graph.incoming, rows, graph.position[rows], 4, np.uint64(5), replace=replace)
        return Boundary(graph, 0.5, 3).thin(taken, rows, 1) if way == "both" else taken

    return take


def both_ways(parts: Parts, workers: int, targets: NDArray[Any], way: str, hops: int = 2) -> list[Layers]:
    def work(team: Team) -> Layers:
        graph = open_worker_graph(parts, team.rank, team.size)
        active, take = ActiveSet(graph, team, FrontierPool(graph.rows), 0), take_of(way, graph)
        own: NDArray[Any] = np.flatnonzero(np.isin(graph.position[: graph.owned], targets))
        layers = []
        for _ in range(hops):
            copied, reads = active.expand(own, take)
            in_place, same = active.expand(own, take, in_place=True)
            assert np.array_equal(reads, same)
            layers.append((copied, in_place))
            own = reads
        return layers

    return run_threads(workers, work)


def assert_same_layers(copied: WorkerLayer, in_place: WorkerLayer, draw: np.random.Generator) -> None:
    edges, block = in_place.edges, copied.edges.block
    assert isinstance(edges, TakenEdges)
    assert np.array_equal(edges.lists.offsets, block.offsets)
    assert np.array_equal(edges.entries, block.edge)
    assert np.array_equal(edges.stands_for(), copied.edges.stands_for())
    assert copied.edges.split(numbered=False).peers.keys() == edges.split(numbered=False).peers.keys()
    for weight in (np.empty(0), draw.permutation(copied.edges.count) + 1.0):
        expected = np.zeros((block.destinations, len(copied.rows)))
        np.add.at(
            expected,
            (np.repeat(np.arange(block.destinations), np.diff(block.offsets)), block.neighbours),
            weight if len(weight) else 1,
        )
        for layer in (copied, in_place):
            forward, backward = matrices(layer, weight)
            np.testing.assert_array_equal(forward, expected)
            np.testing.assert_array_equal(backward.T, expected)
        np.testing.assert_array_equal(dense(edges.lists, len(copied.rows), weight), expected)
        np.testing.assert_array_equal(dense(edges.lists.transposed, block.destinations, weight).T, expected)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("way", WAYS)
def test_the_same_layers_either_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, workers: int, seed: int) -> None:
    """Of four workers one has no rows."""
    monkeypatch.setattr(search, "worth_a_map", lambda *_: True)
    draw = np.random.default_rng(seed)
    pairs, owner = draw.integers(0, 30, (500, 2)), draw.choice([0, 1, 3], 30).astype(np.int32)
    parts = build(Case(30, pairs, 4, owner), tmp_path)
    for layers in both_ways(parts, workers, draw.choice(30, 9, replace=False), way):
        for copied, in_place in layers:
            assert np.array_equal(copied.rows, in_place.rows)
            assert (copied.outputs, copied.edges.count) == (in_place.outputs, in_place.edges.count)
            for ours, theirs in zip(copied.traffic.send, in_place.traffic.send, strict=True):
                assert np.array_equal(ours, theirs)
            for name in ("offsets", "neighbours", "edge", "sources", "row_scale", "edge_scale"):
                np.testing.assert_array_equal(
                    getattr(copied.edges.block, name), getattr(in_place.edges.block, name), err_msg=name
                )
            assert_same_layers(copied, in_place, draw)


def test_a_layer_worked_out_by_hand(tmp_path: Path) -> None:
    """Node 0 hears from 1, twice, and from 2 and 3 of another part: its four edges are as many as the worker has rows.

    Inner nodes come first in either part: it is row 1 of the worker, and of the mirrors 3 is the first.
    """
    pairs = np.array([[1, 0], [2, 0], [1, 0], [3, 0], [0, 2], [3, 3]])
    parts = build(Case(4, pairs, 2, np.array([0, 0, 1, 1], np.int32)), tmp_path)

    def work(team: Team) -> WorkerLayer:
        graph = open_worker_graph(parts, team.rank, team.size)
        active, own = ActiveSet(graph, team, FrontierPool(graph.rows), 0), np.flatnonzero(graph.position[: graph.owned] == 0)
        return active.expand(own, lambda rows: take_all(graph.incoming, rows), in_place=True)[0]

    layer = run_threads(2, work)[0]
    edges = layer.edges
    assert isinstance(edges, TakenEdges)
    assert layer.rows.tolist() == [1, 0, 2, 3]
    assert edges.lists.neighbours_at(slice(None)).tolist() == [1, 3, 1, 2]
    split = edges.split(numbered=True)
    weight = np.array([1.0, 10.0, 100.0, 1000.0])
    assert dense(split.inner, 2, weight).tolist() == [[0, 101]]
    assert dense(split.inner.turned_for(weight), 1, weight).tolist() == [[0], [101]]
    assert split.peers.keys() == {1}
    assert split.peers[1].rows.tolist() == [0]
    assert dense(split.peers[1].forward, 2, weight).tolist() == [[1000, 10]]
    assert dense(split.peers[1].backward, 1, weight).tolist() == [[1000], [10]]


def test_of_the_split_nothing_is_kept_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces read the entries of the whole, and seen from their sources they are stretches of one index."""
    monkeypatch.setattr(search, "worth_a_map", lambda *_: True)
    draw = np.random.default_rng(1)
    parts = build(Case(30, draw.integers(0, 30, (500, 2)), 2, draw.integers(0, 2, 30).astype(np.int32)), tmp_path)
    ((_, layer),) = both_ways(parts, 2, np.arange(9), "fan-out", hops=1)[0]
    assert isinstance(layer.edges, TakenEdges)
    lists, split = layer.edges.lists, layer.edges.split(numbered=False)
    for piece, back in (
        (split.inner, split.inner.turned_for(np.empty(0))),
        *((peer.forward, peer.backward) for peer in split.peers.values()),
    ):
        assert piece.taken is lists.taken
        assert np.shares_memory(back.neighbours, lists.transposed_unnumbered.neighbours)
    assert "transposed" not in vars(lists)


def test_layers_of_fewer_edges_than_rows_are_copied(tmp_path: Path) -> None:
    """Three taken edges in a graph of four rows."""
    pairs = np.array([[1, 0], [2, 0], [3, 0]])
    parts = build(Case(4, pairs, 1, np.zeros(4, np.int32)), tmp_path)
    ((layer,),) = both_ways(parts, 1, np.array([0]), "fan-out", hops=1)
    assert not isinstance(layer[1].edges, TakenEdges)
    assert layer[1].edges.block.neighbours.tolist() == [1, 2, 3]


def test_a_vertex_cut_lists_what_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its layers have a list for every row, which those that were asked for are some of."""
    monkeypatch.setattr(search, "worth_a_map", lambda *_: True)
    draw = np.random.default_rng(1)
    owner, edge_part = draw.integers(0, 2, 30).astype(np.int32), draw.integers(0, 2, 500).astype(np.uint16)
    parts = build(Case(30, draw.integers(0, 30, (500, 2)), 2, owner, edge_part), tmp_path)

    def work(team: Team) -> WorkerLayer:
        graph = open_worker_graph(parts, team.rank, team.size)
        active = ActiveSet(graph, team, FrontierPool(graph.rows), 0)
        return active.expand(np.arange(3), lambda rows: take_all(graph.incoming, rows), in_place=True)[0]

    assert not any(isinstance(layer.edges, TakenEdges) for layer in run_threads(2, work))
