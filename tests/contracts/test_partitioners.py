"""What every partitioning method promises, on the graphs where partitioners go wrong."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from starling.core.assignment import Assignment
from starling.core.errors import InputError
from starling.partition.contract import MOST_PARTS, Partitioner, PartitionTask
from starling.partition.ownership import to_edge_cut
from starling.partition.quality import measure
from starling.partition.registry import METHODS, make_method
from starling.stream.edges import EdgesInMemory
from tests.support.tiny import TINY, stored

EXTRAS = ("kaminpar", "mtkahypar")

CASES = [
    pytest.param(name, settings, id="-".join([name, *settings.values()]))
    for name in METHODS
    for settings in (
        [{}, {"by": "source"}]
        if name == "hash"
        else [{}, {"objective": "volume"}]
        if name == "metis"
        else [{}, {"objective": "km1"}]
        if name == "mtkahypar"
        else [{}, {"owner": "most-edges"}]
        if METHODS[name].kind == "vertex-cut"
        else [{}]
    )
]


def make(name: str, settings: dict[str, str]) -> Partitioner:
    if name in EXTRAS and importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    return make_method(name, settings)


@pytest.mark.parametrize(("name", "settings"), CASES)
@pytest.mark.parametrize("parts", [1, 2, 3, 8, 100])
def test_every_node_has_one_owner_and_every_edge_its_place(
    name: str, settings: dict[str, str], parts: int, tmp_path: Path
) -> None:
    method = make(name, settings)
    for graph, edges in TINY.items():
        scratch = tmp_path / graph.replace(" ", "-")
        scratch.mkdir()
        assignment = method.assign(PartitionTask(edges, parts, seed=5, scratch=scratch))
        assert assignment.parts == parts, graph
        assert assignment.owner.shape == (edges.nodes,), graph
        assert assignment.owner.dtype == np.int32, graph
        assert set(assignment.owner.tolist()) <= set(range(parts)), graph
        if assignment.kind == "vertex-cut":
            check_vertex_cut(edges, assignment, own_rule=name != "hash")
        else:
            assert assignment.edge_part is None, graph
        check_quality(edges, assignment)
        check_quality(edges, to_edge_cut(assignment))


def check_vertex_cut(edges: EdgesInMemory, assignment: Assignment, own_rule: bool) -> None:
    """Each edge is in one part, and each node's master is where it has an edge."""
    assert assignment.edge_part is not None
    assert len(assignment.edge_part) == edges.edges
    replicas: dict[int, set[int]] = {}
    for (u, v), part in zip(stored(edges), assignment.edge_part.tolist(), strict=True):
        assert 0 <= part < assignment.parts
        replicas.setdefault(u, set()).add(part)
        replicas.setdefault(v, set()).add(part)
    for node, at in replicas.items() if own_rule else ():
        assert assignment.owner[node] in at


def check_quality(edges: EdgesInMemory, assignment: Assignment) -> None:
    """The streamed measures equal those of plain sets: full neighbour lists, counted part by part."""
    quality = measure(edges, assignment)
    owner = assignment.owner.tolist()
    copies = [{node for node in range(edges.nodes) if owner[node] == part} for part in range(assignment.parts)]
    held = [0] * assignment.parts
    placed: NDArray[np.uint16] | None = assignment.edge_part
    for i, (u, v) in enumerate(stored(edges)):
        part = owner[v] if placed is None else int(placed[i])
        copies[part] |= {u, v}
        held[part] += 1
    total = sum(map(len, copies))
    assert quality.halo_rows == total - edges.nodes
    assert quality.replication_factor == pytest.approx(total / edges.nodes if edges.nodes else 1)
    assert quality.edge_balance == pytest.approx(max(held) * len(held) / sum(held) if edges.edges else 1)
    assert quality.edge_cut == pytest.approx(np.mean([owner[u] != owner[v] for u, v in stored(edges)]) if edges.edges else 0)


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_the_seed_alone_decides(name: str, settings: dict[str, str]) -> None:
    method = make(name, settings)
    edges = TINY["joined cliques"]
    for seed in (0, 1, 2**40):
        first = method.assign(PartitionTask(edges, 3, seed, threads=1))
        again = make(name, settings).assign(PartitionTask(edges, 3, seed, threads=2))
        assert first.owner.tolist() == again.owner.tolist()
        assert (first.edge_part is None) == (again.edge_part is None)
        if first.edge_part is not None and again.edge_part is not None:
            assert first.edge_part.tolist() == again.edge_part.tolist()


STRUCTURED = [name for name, method in METHODS.items() if method.kind != "vertex-cut" and name not in ("random", "hash")]


@pytest.mark.parametrize("name", STRUCTURED)
def test_methods_that_look_for_structure_keep_two_cliques_whole(name: str) -> None:
    assignment = make(name, {}).assign(PartitionTask(TINY["two cliques"], 2, seed=1))
    assert measure(TINY["two cliques"], assignment).replication_factor == 1
    assert measure(TINY["two cliques"], assignment).node_balance == 1


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("parts", [0, -1, MOST_PARTS + 1])
def test_absurd_numbers_of_parts_are_refused(name: str, parts: int) -> None:
    with pytest.raises(InputError, match="between 1 and 65,535 parts"):
        METHODS[name]().assign(PartitionTask(TINY["path"], parts))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_describes_itself(name: str) -> None:
    method = METHODS[name]
    assert method.name == name
    assert method.summary
    assert "\n" not in method.summary
    assert method.source
    assert method.__doc__
    for setting in method.Settings.model_fields.values():
        assert setting.description


@pytest.mark.parametrize("name", [name for name in METHODS if not METHODS[name].streaming])
def test_a_graph_too_large_for_memory_is_refused_before_it_is_read(name: str) -> None:
    class Unreadable(EdgesInMemory):
        def _read(self, start: int, stop: int) -> NDArray[np.int32]:
            raise AssertionError("the graph was read")

    edges = Unreadable(np.empty((0, 2), np.int32), 10_000_000, directed=False)
    edges.edges = 100_000_000
    with pytest.raises(InputError, match=rf"{name} needs about .* --memory leaves it 2.0 GiB. Use --method flock"):
        METHODS[name]().assign(PartitionTask(edges, 8, memory=2 << 30))


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].streaming])
def test_streaming_methods_hold_a_fixed_amount_a_node(name: str) -> None:
    def needed(nodes: int, edges: int) -> int:
        stream = EdgesInMemory(np.empty((0, 2), np.int32), nodes, directed=False)
        stream.edges = edges
        return METHODS[name]().memory_needed(PartitionTask(stream, 8))

    assert needed(10_000_000, 100_000_000) == needed(10_000_000, 200_000_000) <= 600 << 20
    assert needed(20_000_000, 100_000_000) > needed(10_000_000, 100_000_000)
