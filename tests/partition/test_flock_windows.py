"""Windows give exactly the neighbour sets of the graph, however it is cut and wherever lists are kept."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.kernels.partition.windows import cut_windows
from starling.partition.contract import PartitionTask
from starling.partition.flock.windows import Windows
from starling.partition.passes import count_connections
from starling.stream.edges import EdgesInMemory
from tests.support.tiny import TINY, stored, streams, undirected


def neighbour_sets(edges: EdgesInMemory) -> list[set[int]]:
    sets: list[set[int]] = [set() for _ in range(edges.nodes)]
    for u, v in stored(edges):
        if u != v:
            sets[u].add(v)
            sets[v].add(u)
    return sets


def check(edges: EdgesInMemory, place: np.ndarray | None, entries: int, scratch: Path | None) -> Windows:
    degree = count_connections(edges)
    node_at = np.arange(edges.nodes) if place is None else np.argsort(place)
    windows = Windows(PartitionTask(edges, 2, scratch=scratch), degree[node_at].astype(np.int32), place, entries)
    sets, seen = neighbour_sets(edges), 0
    for _ in range(2):  # as often as wanted
        seen = 0
        for window in windows:
            assert window.low == seen
            for row in range(window.rows):
                lists = window.neighbour[window.start[row] : window.start[row + 1]].tolist()
                assert lists == sorted(lists)
                assert {int(node_at[u]) for u in lists} == sets[node_at[seen]]
                assert len(lists) == len(sets[node_at[seen]])
                seen += 1
    assert seen == edges.nodes
    windows.close()
    return windows


@settings(deadline=None, max_examples=60)
@given(edges=streams(), entries=st.integers(1, 40), shuffled=st.booleans(), on_disk=st.booleans(), data=st.data())
def test_windows_hold_neighbour_sets(
    edges: EdgesInMemory, entries: int, shuffled: bool, on_disk: bool, data: st.DataObject
) -> None:
    place = np.array(data.draw(st.permutations(range(edges.nodes))), np.int32) if shuffled else None
    with tempfile.TemporaryDirectory() as folder:
        windows = check(edges, place, entries, Path(folder) if on_disk else None)
        if on_disk:
            assert windows.passes <= 1
            assert not [path for path in Path(folder).rglob("*") if path.is_file()]


def test_a_graph_that_fits_is_read_once() -> None:
    assert check(TINY["joined cliques"], None, 1000, None).passes == 1


def test_without_a_folder_each_look_is_a_pass() -> None:
    windows = check(TINY["path"], None, 6, None)  # degrees 1, 2, 2, … 2, 1: four windows
    assert windows.bounds.tolist() == [0, 3, 6, 9, 10]
    assert windows.passes == 8


@pytest.mark.parametrize(("units", "bounds"), [([], [0, 2, 4, 5]), ([0, 0, 0, 1, 2], [0, 3, 5]), ([0, 0, 0, 0, 0], [0, 5])])
def test_cuts_by_hand(units: list[int], bounds: list[int]) -> None:
    degree = np.array([2, 2, 2, 2, 2], np.int32)
    assert list(cut_windows(degree, np.array(units, np.int32), 4 if not units else 6)) == bounds


def test_a_hub_larger_than_a_window_is_a_window() -> None:
    star = undirected([(0, leaf) for leaf in range(1, 30)], 30)
    assert check(star, None, 8, None).count > 1
