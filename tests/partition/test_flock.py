"""flock as a whole: hand-worked graphs, caps, budgets, loads, and METIS's mark on a real graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.partition.contract import PartitionTask
from starling.partition.flock import Flock
from starling.partition.flock.coarse import FlockGraph, flock_graph, start_parts
from starling.partition.flock.flocks import find_flocks
from starling.partition.flock.windows import Window, Windows
from starling.partition.passes import count_connections, pass_bytes
from starling.partition.quality import measure
from starling.stream.edges import EdgesInMemory
from tests.support.data import real_graph
from tests.support.tiny import TINY, clique, streams, undirected

CORA_METIS = 1.18
"""Replication factor of METIS on cora, p = 4, median of five seeds."""


def flock(edges: EdgesInMemory, parts: int, seed: int = 0, **settings: object) -> np.ndarray:
    return Flock(Flock.Settings.model_validate(settings)).assign(PartitionTask(edges, parts, seed)).owner


def rings(count: int, size: int) -> EdgesInMemory:
    """Cliques in a ring, each joined to the next by one edge."""
    pairs = [pair for k in range(count) for pair in clique(*range(k * size, (k + 1) * size))]
    return undirected([*pairs, *(((k + 1) * size - 1, (k + 1) % count * size) for k in range(count))], count * size)


def cora() -> EdgesInMemory:
    data = np.load(real_graph("cora"))
    pairs = np.ascontiguousarray(data["edge_index"].T).astype(np.int32)
    both = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
    return EdgesInMemory(both[both[:, 0] != both[:, 1]], int(data["num_nodes"]), directed=False)


def test_joined_cliques_are_cut_at_the_bridge() -> None:
    owner = flock(TINY["joined cliques"], 2)
    assert len(set(owner[:5].tolist())) == len(set(owner[5:].tolist())) == 1
    assert owner[0] != owner[5]


def test_a_path_is_cut_once() -> None:
    owner = flock(TINY["path"], 2)
    assert int(np.abs(np.diff(owner)).sum()) == 1
    assert np.bincount(owner).tolist() == [5, 5]


def test_a_ring_of_cliques_is_cut_between_cliques() -> None:
    assert measure(rings(8, 12), Flock().assign(PartitionTask(rings(8, 12), 4))).halo_rows == 8


def test_better_than_metis_on_cora() -> None:
    edges = cora()
    for seed in (0, 1):
        quality = measure(edges, Flock().assign(PartitionTask(edges, 4, seed)))
        assert quality.replication_factor <= CORA_METIS
        assert quality.node_balance <= 1.03


@settings(deadline=None, max_examples=40)
@given(edges=streams(most_nodes=40), parts=st.integers(2, 9), seed=st.integers(0, 3))
def test_parts_keep_to_the_cap_and_none_is_empty(edges: EdgesInMemory, parts: int, seed: int) -> None:
    sizes = np.bincount(flock(edges, parts, seed), minlength=parts)
    assert sizes.max() <= -(-edges.nodes // parts)
    if edges.nodes >= parts:
        assert sizes.min() >= 1


@pytest.mark.parametrize("scratch", [False, True])
def test_many_windows_give_a_good_cut_too(scratch: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("starling.partition.flock.plan.LEAST_WINDOW", 2000)
    edges = cora()
    needed = Flock().memory_needed(PartitionTask(edges, 4))
    task = PartitionTask(edges, 4, memory=needed, scratch=tmp_path if scratch else None)
    assignment = Flock().assign(task)
    assert int(assignment.notes["windows"] or 0) > 2
    quality = measure(edges, assignment)
    assert quality.node_balance <= 1.03
    assert quality.replication_factor <= 1.05 * CORA_METIS
    assert assignment.passes == 3 if scratch else assignment.passes > 3
    assert not list(tmp_path.rglob("*.npy"))


def test_with_and_without_a_scratch_folder_the_same_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("starling.partition.flock.plan.LEAST_WINDOW", 60)
    edges = rings(10, 8)
    needed = Flock().memory_needed(PartitionTask(edges, 3))
    owners = [
        Flock().assign(PartitionTask(edges, 3, memory=needed, scratch=scratch, threads=threads)).owner.tolist()
        for scratch, threads in ((None, 1), (tmp_path, 2))
    ]
    assert owners[0] == owners[1]


def test_loads_are_evened_in_place_of_nodes() -> None:
    edges = rings(8, 12)
    load = np.where(np.arange(96) < 12, 8, 1)
    owner = Flock().assign(PartitionTask(edges, 4, node_load=load)).owner
    held = np.bincount(owner, load)
    assert held.max() < 1.03 * load.sum() / 4 + 8  # within a node of the cap
    assert np.bincount(owner).max() > 24


def test_duplicates_and_loops_change_nothing() -> None:
    plain = rings(6, 6)
    pairs = np.concatenate([next(plain.blocks()).pairs, next(plain.blocks()).pairs, np.array([[3, 3]], np.int32)])
    assert flock(EdgesInMemory(pairs, 36, directed=False), 3).tolist() == flock(plain, 3).tolist()


def test_flocks_of_a_part_lie_together() -> None:
    assignment = Flock().assign(PartitionTask(rings(8, 12), 2))
    assert assignment.locality is not None
    flocks = [set(assignment.owner[assignment.locality == label].tolist()) for label in set(assignment.locality.tolist())]
    assert sum(len(owners) == 1 for owners in flocks) >= len(flocks) - 1


def test_flocks_keep_to_their_limit() -> None:
    edges = cora()
    windows = Windows(PartitionTask(edges, 2), count_connections(edges), None, 1 << 30)
    for limit in (1, 2, 8, 50):
        flocks = find_flocks(windows, edges.nodes, limit, seed=1)
        sizes = np.bincount(flocks.label, minlength=flocks.count)
        assert 1 <= sizes.min() <= sizes.max() <= limit
        place, first = flocks.order()
        assert sorted(place.tolist()) == list(range(edges.nodes))
        assert np.diff(first).tolist() == sizes.tolist()


def test_the_flock_graph_by_hand() -> None:
    """Flocks {0, 1}, {2, 3}, {4}; edges 1-2, 1-3, 0-1, 3-4: ties of 2 between the first two, 1 between the last two."""
    edges = undirected([(0, 1), (1, 2), (1, 3), (3, 4)], 5)
    windows = Windows(PartitionTask(edges, 2), count_connections(edges), None, 100)
    label, first = np.array([0, 0, 1, 1, 2], np.int32), np.array([0, 2, 4, 5])
    graph = flock_graph(windows, label, first, np.diff(first))
    assert graph.start.tolist() == [0, 1, 3, 4]
    assert graph.column.tolist() == [1, 0, 2, 1]
    assert graph.value.tolist() == [2, 2, 1, 1]
    cut = flock_graph(windows, label, first, np.diff(first), keep=1)  # the last flock keeps its only tie, so it stays
    assert (cut.column.tolist(), cut.value.tolist()) == (graph.column.tolist(), graph.value.tolist())


@settings(deadline=None, max_examples=40)
@given(edges=streams(), keep=st.integers(1, 4), data=st.data())
def test_the_flock_graph_is_what_plain_sums_give(edges: EdgesInMemory, keep: int, data: st.DataObject) -> None:
    windows = Windows(PartitionTask(edges, 2), count_connections(edges), None, 1 << 20)
    window = next(iter(windows))
    flocks = 1 + max(label := sorted(data.draw(st.lists(st.integers(0, 5), min_size=edges.nodes, max_size=edges.nodes))))
    first = np.searchsorted(label, np.arange(flocks + 1))
    ties = np.zeros((flocks, flocks), np.int64)
    for v in range(edges.nodes):
        for u in window.neighbour[window.start[v] : window.start[v + 1]]:
            ties[label[v], label[u]] += label[v] != label[u]
    graph = flock_graph([window], np.array(label, np.int32), first, np.diff(first), keep)
    heaviest = np.zeros_like(ties, bool)
    for c in range(flocks):
        heaviest[c, [d for d in np.argsort(-ties[c], kind="stable")[:keep] if ties[c, d]]] = True
    assert as_matrix(graph).tolist() == np.where(heaviest | heaviest.T, ties, 0).tolist()


def as_matrix(graph: FlockGraph) -> np.ndarray:
    matrix = np.zeros((graph.flocks, graph.flocks), np.int64)
    matrix[np.repeat(np.arange(graph.flocks), np.diff(graph.start)), graph.column] = graph.value
    return matrix


def test_a_flock_graph_too_large_for_metis_is_coarsened() -> None:
    edges = cora()
    degree = count_connections(edges)
    window: Window = next(iter(Windows(PartitionTask(edges, 2), degree, None, 1 << 20)))
    alone = np.arange(edges.nodes + 1)
    graph = flock_graph([window], np.arange(edges.nodes, dtype=np.int32), alone, np.ones(edges.nodes, np.int64))
    for entries in (graph.entries, 3000, 200):
        starts = start_parts(graph, 4, tries=2, imbalance=0.03, entries=entries, seed=0)
        assert len(starts) == 2
        assert starts[0].replicas <= starts[1].replicas
        assert starts[0].part.shape == (edges.nodes,)


def test_too_little_memory_is_refused_before_reading() -> None:
    edges = rings(8, 12)
    with pytest.raises(InputError, match="flock needs about"):
        Flock().assign(PartitionTask(edges, 4, memory=pass_bytes(edges)))
