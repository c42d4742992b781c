"""METIS and its like: odd graphs, loads, objectives, missing packages."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from starling.core.errors import MissingExtra
from starling.partition.adjacency import read_adjacency
from starling.partition.contract import PartitionTask
from starling.partition.graph_files import graph_file, nets_file
from starling.partition.in_memory import spread_evenly
from starling.partition.quality import measure
from starling.partition.registry import make_method
from starling.stream.edges import EdgesInMemory
from tests.support.data import real_graph
from tests.support.tiny import TINY, clique, undirected

METHODS = ["metis", "kaminpar", "mtkahypar"]


@pytest.fixture
def cora() -> EdgesInMemory:
    data = np.load(real_graph("cora"))
    return EdgesInMemory(np.ascontiguousarray(data["edge_index"].T), int(data["num_nodes"]), directed=False)


@pytest.mark.parametrize("name", METHODS)
def test_more_parts_than_nodes_give_a_part_to_each(name: str) -> None:
    if name != "metis":
        pytest.importorskip(name)
    assignment = make_method(name).assign(PartitionTask(TINY["path"], 12))
    assert assignment.owner.tolist() == list(range(10))


@pytest.mark.parametrize("name", METHODS)
def test_loads_are_balanced_instead_of_nodes(name: str) -> None:
    """A path of 40 whose first ten nodes weigh ten each: half the load of 130 is six or seven of them, against all others."""
    if name != "metis":
        pytest.importorskip(name)
    path = undirected([(i, i + 1) for i in range(39)], 40)
    load = np.where(np.arange(40) < 10, 10, 1)
    owner = make_method(name, {"imbalance": 0.1}).assign(PartitionTask(path, 2, node_load=load)).owner
    held = np.bincount(owner, load, minlength=2)
    assert held.max() <= 1.1 * 65
    assert np.bincount(owner, minlength=2).max() >= 33


@pytest.mark.parametrize("name", METHODS)
def test_nodes_without_load_are_allowed(name: str) -> None:
    if name != "metis":
        pytest.importorskip(name)
    load = np.array([1, 0, 1, 0, 1, 0, 1, 0])
    assignment = make_method(name).assign(PartitionTask(TINY["two cliques"], 2, node_load=load))
    assert measure(TINY["two cliques"], assignment).replication_factor == 1


@pytest.mark.parametrize(("name", "objective"), [("metis", "volume"), ("mtkahypar", "km1")])
def test_the_replication_objectives_replicate_less(cora: EdgesInMemory, name: str, objective: str) -> None:
    if name != "metis":
        pytest.importorskip(name)

    def replication(settings: dict[str, object]) -> float:
        seeds = [make_method(name, settings).assign(PartitionTask(cora, 4, seed)) for seed in range(5)]
        return float(np.median([measure(cora, assignment).replication_factor for assignment in seeds]))

    assert replication({"objective": objective}) < replication({})


def test_metis_seeds_differ_and_repeat(cora: EdgesInMemory) -> None:
    owners = [make_method("metis").assign(PartitionTask(cora, 4, seed)).owner.tolist() for seed in (0, 1, 0)]
    assert owners[0] == owners[2] != owners[1]


def test_a_graph_without_edges_is_spread() -> None:
    assert make_method("metis").assign(PartitionTask(TINY["no edges"], 2)).owner.tolist() == [0, 0, 0, 1, 1]
    assert spread_evenly(4, 2, np.array([1, 5, 2, 2])).tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize("name", ["kaminpar", "mtkahypar"])
def test_a_missing_package_is_named_before_the_graph_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unreadable(EdgesInMemory):
        def _read(self, start: int, stop: int) -> np.ndarray:
            raise AssertionError("the graph was read")

    monkeypatch.setitem(sys.modules, name, None)
    edges = Unreadable(np.zeros((9, 2), np.int32), 9, directed=False)
    with pytest.raises(MissingExtra, match=rf"--method {name} needs the package '{name}'.*starling-gnn\[partitioners\]"):
        make_method(name).assign(PartitionTask(edges, 2))


def test_mtkahypar_has_the_threads_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    library = pytest.importorskip("mtkahypar")
    from starling.partition import mtkahypar

    asked = list[int]()
    first = library.initialize(1, print_warnings=False)
    monkeypatch.setattr(mtkahypar, "_pools", {})
    monkeypatch.setattr(library, "initialize", lambda threads: asked.append(threads) or first)
    make_method("mtkahypar").assign(PartitionTask(TINY["two cliques"], 2, threads=3))
    make_method("mtkahypar").assign(PartitionTask(TINY["two cliques"], 2, threads=1))
    assert asked == [3]


def test_files_that_the_packages_read() -> None:
    graph = read_adjacency(PartitionTask(undirected([*clique(0, 1, 2), (2, 3)], 5), 2))
    load = np.array([1, 2, 3, 4, 5])
    with graph_file(graph, None, None) as path:
        assert path.read_text() == "5 4\n2 3\n1 3\n1 2 4\n3\n\n"
    assert not path.exists()
    with graph_file(graph, load, None) as path:
        assert path.read_text() == "5 4 10\n1 2 3\n2 1 3\n3 1 2 4\n4 3\n5 \n"
    with nets_file(graph, None, None) as path:
        assert path.read_text() == "5 5\n1 2 3\n2 1 3\n3 1 2 4\n4 3\n5 \n"
    with nets_file(graph, load, None) as path:
        assert path.read_text() == "5 5 10\n1 2 3\n2 1 3\n3 1 2 4\n4 3\n5 \n1\n2\n3\n4\n5\n"
